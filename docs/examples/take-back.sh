#!/bin/sh
# Take the files of every sound session back to before its last turn, unless that would delete something.
yolop-cli session list --json | jq -r '.sessions[] | select(.state == "ok") | .id' |
    while read -r session; do
        preview=$(yolop-cli undo --mode files -s "$session" --json) || continue
        printf '%s\n' "$preview" | jq -r '.workspace.changes[] | "\(.change) \(.path)"'
        if [ "$(printf '%s\n' "$preview" | jq .workspace.counts.deleted)" -gt 0 ]; then
            echo "$session: left alone"
            yolop-cli rewind cancel -s "$session"
        else
            yolop-cli rewind apply "$(printf '%s\n' "$preview" | jq -r .token)" -s "$session"
        fi
    done
