"""``yolop-cli completion``: the scripts that make a shell complete, and what they are answered.

Click finds out what is being completed; the answer to a script is a line a candidate: its kind, value and
description, separated by tabs. ``dir`` and ``file`` leave the rest to the shell; after ``part`` no space
follows.
"""

from __future__ import annotations

import re

import click
from click import shell_completion
from click.shell_completion import CompletionItem

from yolop_cli.cli import text
from yolop_cli.cli.command import Invocation, command
from yolop_cli.cli.screen import write

PROGRAM = "yolop-cli"
_HELP_WIDTH = 60
_OPTION_VALUE = re.compile(r"--[^=]*=")

_BASH = r"""# bash completion for yolop-cli

_yolop_cli() {
    local type value help width=0 i
    local -a values=() helps=()
    while IFS=$'\t' read -r type value help; do
        case $type in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            part | plain)
                [[ $type == part ]] && compopt -o nospace 2>/dev/null
                [[ ${COMP_WORDS[COMP_CWORD]} == [\"\']* ]] || printf -v value %q "$value"
                values+=("$value")
                helps+=("$help")
                ((${#value} > width)) && width=${#value}
                ;;
        esac
    done < <(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _YOLOP_CLI_COMPLETE=bash_complete \
        "$1" 2>/dev/null)
    # A description is shown where the candidates are listed, and never where one of them is put in.
    if ((${#values[@]} > 1)) && [[ $COMP_TYPE == 63 ]]; then
        for i in "${!values[@]}"; do
            [[ -z ${helps[i]} ]] || printf -v "values[$i]" '%-*s  (%s)' "$width" "${values[i]}" "${helps[i]}"
        done
    fi
    COMPREPLY=("${values[@]}")
}

complete -o nosort -F _yolop_cli yolop-cli 2>/dev/null || complete -F _yolop_cli yolop-cli
"""

_ZSH = r"""#compdef yolop-cli

# The function is named like the file, so that it takes the place of what zsh loads from there.
_yolop-cli() {
    local line
    local -a fields described plain partial
    for line in "${(@f)$(COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT - 1)) \
        _YOLOP_CLI_COMPLETE=zsh_complete "${words[1]}" 2>/dev/null)}"; do
        fields=("${(@ps:\t:)line}")
        case $fields[1] in
            dir) _path_files -/ ;;
            file) _path_files ;;
            part) partial+=("$fields[2]") ;;
            plain)
                if [[ -n $fields[3] ]]; then
                    described+=("${${fields[2]//\\/\\\\}//:/\\:}:${fields[3]//\\/\\\\}")
                else
                    plain+=("$fields[2]")
                fi
                ;;
        esac
    done
    (( $#described )) && _describe -V 'yolop-cli' described -U
    (( $#plain )) && compadd -U -V yolop-cli -a plain
    (( $#partial )) && compadd -U -S '' -V yolop-cli -a partial
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _yolop-cli "$@"
else
    compdef _yolop-cli yolop-cli
fi
"""

_FISH = r"""# fish completion for yolop-cli

function __yolop_cli
    set -l words (commandline --cut-at-cursor --current-process)
    set -l word (commandline --cut-at-cursor --current-token)
    set -lx _YOLOP_CLI_COMPLETE fish_complete
    for line in (COMP_WORDS="$words" COMP_CWORD="$word" yolop-cli 2>/dev/null)
        set -l fields (string split \t -- $line)
        switch $fields[1]
            case dir
                __fish_complete_directories $word
            case file
                __fish_complete_path $word
            case part plain
                string join \t -- $fields[2..]
        end
    end
end

complete --command yolop-cli --no-files --keep-order --arguments '(__yolop_cli)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def _line(item: CompletionItem[str], prefix: str = "") -> str:
    return f"{item.type}\t{prefix}{item.value}\t{text.clip(item.help or '', _HELP_WIDTH)}"


def _answer(shell: shell_completion.ShellComplete, prefix: str = "") -> str:
    return "\n".join(_line(item, prefix) for item in shell.get_completions(*shell.get_completion_args()))


def _begun(incomplete: str) -> str:
    """``--option=`` of a word that has it: what the shell replaces is the whole word."""
    begun = _OPTION_VALUE.match(incomplete)
    return begun.group() if begun else ""


@shell_completion.add_completion_class
class Bash(shell_completion.BashComplete):
    """Answers bash, which gives the words around an equals sign, and the sign, one by one."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        return [word for word in args if word != "="], "" if incomplete == "=" else incomplete

    def complete(self) -> str:
        return _answer(self)


@shell_completion.add_completion_class
class Zsh(shell_completion.ZshComplete):
    """Answers zsh."""

    source_template = _ZSH

    def complete(self) -> str:
        return _answer(self, _begun(self.get_completion_args()[1]))


@shell_completion.add_completion_class
class Fish(shell_completion.FishComplete):
    """Answers fish."""

    source_template = _FISH

    def complete(self) -> str:
        return _answer(self, _begun(self.get_completion_args()[1]))


@command(
    None,
    "completion",
    examples=[
        'eval "$(yolop-cli completion bash)"',
        "yolop-cli completion zsh > ~/_yolop-cli",
        "yolop-cli completion fish > ~/yolop-cli.fish",
    ],
)
@click.argument("shell", type=click.Choice(tuple(SCRIPTS)))
def completion(invocation: Invocation, shell: str) -> None:
    """Print the script that lets a shell complete commands, ids, tokens and paths.

    An installation puts it where bash, zsh and fish look for it. Elsewhere, evaluate it when the shell
    starts, or save it in a directory that the shell reads.
    """
    invocation.screen.result({"shell": shell, "script": SCRIPTS[shell]}, lambda: write(SCRIPTS[shell]))
