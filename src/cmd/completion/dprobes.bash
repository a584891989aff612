# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Completion of dprobes for bash: `dprobes complete` knows what can stand at the end of the line.
_dprobes() {
	local lines IFS=$'\n'
	mapfile -t lines < <(dprobes complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
	case ${lines[0]} in
	files)
		COMPREPLY=($(compgen -f -- "$2"))
		compopt -o filenames 2>/dev/null
		;;
	commands) COMPREPLY=($(compgen -c -- "$2")) ;;
	*)
		COMPREPLY=("${lines[@]:1}")
		COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
		case ${COMPREPLY[*]} in *[:\(\ ]) compopt -o nospace 2>/dev/null ;; esac
		;;
	esac
}

complete -F _dprobes dprobes
