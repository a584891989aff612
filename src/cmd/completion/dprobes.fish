# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Completion of dprobes for fish: `dprobes complete` knows what can stand at the end of the line.
function __dprobes_complete
    set -l lines (dprobes complete fish (commandline -cp) 2>/dev/null)
    switch "$lines[1]"
        case files
            __fish_complete_path (commandline -ct)
        case commands
            __fish_complete_command
        case '*'
            printf '%s\n' $lines[2..-1]
    end
end

complete -c dprobes -f -a '(__dprobes_complete)'
