# fish completion for yolop-cli

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
