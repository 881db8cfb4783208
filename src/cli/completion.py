#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Make the completions of a shell from the option tables.

    completion.py ATOLL bash|zsh|fish >OUT

ATOLL is the program that was just built; `atoll help --table` prints its tables. The build calls this once per shell
(doc/completion/meson.build); test/functional/test_completion.py tries the results in the shells.

A value is completed with file names if the option calls it FILE, PATH, DIR or the like, and with words if the table
names them: --mode WORD "... 'layer', ...; 'direct' ...", or [--format patch|tar|oci] in the usage line.
"""

import re
import subprocess
import sys

FILES = re.compile(r"FILE|PATH|DIR|RECEIPT|ARCHIVE|PUB$|HEAD$")
# Before the command; src/cli/remote-call.c reads these.
GLOBAL = (("host", "URL", "do it in a daemon elsewhere"), ("key", "KEY", "who asks the daemon"))


class Option:
    def __init__(self, name, letter, argument, text):
        self.name, self.letter, self.argument, self.text = name, letter, argument, text
        self.is_files = bool(FILES.search(argument))
        self.words = re.findall(r"'([a-z][a-z-]*)'", text) if argument in ("WORD", "WHEN") else []

    def spellings(self):
        return [f"--{self.name}", *([f"-{self.letter}"] if self.letter else [])]


class Command:
    def __init__(self, name, usage, summary):
        self.name, self.usage, self.summary, self.options = name, usage, summary, []
        self.runs = "COMMAND [ARGUMENT]" in usage  # a program is started, with arguments of its own
        self.needs_dashes = self.runs and "-- COMMAND" in usage  # before its name
        self.is_files = bool(FILES.search(re.sub(r"--?[a-z][a-z-]* [A-Z]+", "", usage)))

    def add(self, *fields):
        option = Option(*fields)
        choice = re.search(rf"--{option.name} ([a-z]+(?:\|[a-z]+)+)", self.usage)
        if choice:
            option.words = choice[1].split("|")
        self.options.append(option)


def read_tables(program):
    commands = []
    for line in subprocess.run([program, "help", "--table"], check=True, capture_output=True, text=True).stdout.splitlines():
        kind, *fields = line.split("\t")
        if kind == "command":
            commands.append(Command(*fields))
        else:
            commands[-1].add(*fields)
    return commands


BASH = r"""# bash completion for atoll; made from its option tables
_atoll()
{
	local cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' start=0 i
	local options='' valued='' files='' words='' kind=''

	COMPREPLY=()
	# "--name=value" comes as three words.
	if [[ $cur == = ]]; then
		cur=''
	elif [[ $previous == = ]]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--host | --key)
			((i++))
			[[ ${COMP_WORDS[i]} == = ]] && ((i++))
			;;
		-*) ;;
		*)
			command=${COMP_WORDS[i]}
			break
			;;
		esac
	done
	case $command in
	'')
		case $previous in
		--host | --key) return ;;
		esac
		COMPREPLY=($(compgen -W "@GLOBAL@ @COMMANDS@" -- "$cur"))
		return
		;;
@CASES@	*) return ;;
	esac

	# Where the command begins that is to be run: behind "--", or at the first word that is neither an option nor its value.
	for ((i++; i < COMP_CWORD && start == 0; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			start=$((i + 1))
		elif [[ ${COMP_WORDS[i]} == -* ]]; then
			if [[ ${COMP_WORDS[i + 1]} == = ]]; then
				((i += 2))
			elif [[ " $valued " == *" ${COMP_WORDS[i]} "* ]]; then
				((i++))
			fi
		elif [[ $kind == command ]]; then
			start=$i
		fi
	done
	if ((start > 0)); then
		if [[ $kind == files ]]; then
			compopt -o filenames 2>/dev/null
			COMPREPLY=($(compgen -f -- "$cur"))
		elif declare -F _command_offset >/dev/null; then
			_command_offset "$start"
		elif ((COMP_CWORD == start)); then
			COMPREPLY=($(compgen -c -- "$cur"))
		else
			compopt -o filenames 2>/dev/null
			COMPREPLY=($(compgen -f -- "$cur"))
		fi
		return
	fi

	case " $words" in
	*" $previous="*)
		words=${words#*"$previous="}
		words=${words%% *}
		COMPREPLY=($(compgen -W "${words//,/ }" -- "$cur"))
		return
		;;
	esac
	if [[ " $files " == *" $previous "* ]]; then
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -f -- "$cur"))
	elif [[ " $valued " == *" $previous "* ]]; then
		return
	elif [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$options" -- "$cur"))
	elif [[ $kind == command ]]; then
		COMPREPLY=($(compgen -c -- "$cur"))
	elif [[ $kind == files ]]; then
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -f -- "$cur"))
	elif [[ $kind == help ]]; then
		COMPREPLY=($(compgen -W "@COMMANDS@" -- "$cur"))
	fi
}
complete -F _atoll atoll
"""


def joined(words):
    return " ".join(words)


def kind_of(command):
    if command.name == "help":
        return "help"
    if command.runs and not command.needs_dashes:
        return "command"
    return "files" if command.is_files else ""


def bash(commands):
    cases = ""
    for command in commands:
        every = [spelling for option in command.options for spelling in option.spellings()]
        valued = [spelling for option in command.options if option.argument for spelling in option.spellings()]
        files = [spelling for option in command.options if option.is_files for spelling in option.spellings()]
        words = [f"{spelling}={','.join(option.words)}" for option in command.options if option.words for spelling in option.spellings()]
        cases += (f"\t{command.name})\n\t\toptions='{joined(every)}'\n\t\tvalued='{joined(valued)}'\n\t\tfiles='{joined(files)}'\n"
                  f"\t\twords='{joined(words)} '\n\t\tkind='{kind_of(command)}'\n\t\t;;\n")
    text = BASH.replace("@CASES@", cases).replace("@COMMANDS@", joined(command.name for command in commands))
    return text.replace("@GLOBAL@", joined(f"--{name}" for name, _, _ in GLOBAL) + " --help --version")


def quoted(text):
    """For a shell, in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_text(text):
    """For the brackets or the message of _arguments."""
    return re.sub(r"([\\\[\]:])", r"\\\1", text)


def zsh_option(option):
    value = ""
    if option.argument:
        action = f"({joined(option.words)})" if option.words else "_files" if option.is_files else " "
        value = f":{zsh_text(option.argument)}:{action}"
    return [quoted(f"*{spelling}{('=' if spelling.startswith('--') else '+') if option.argument else ''}[{zsh_text(option.text)}]{value}")
            for spelling in option.spellings()]


def zsh(commands):
    out = "#compdef atoll\n# zsh completion for atoll; made from its option tables\n\n_atoll_commands()\n{\n\tlocal -a names\n\tnames=(\n"
    out += "".join(f"\t\t{quoted(command.name + ':' + command.summary.replace(':', chr(92) + ':'))}\n" for command in commands)
    out += "\t)\n\t_describe command names\n}\n\n_atoll()\n{\n\tlocal curcontext=$curcontext state line\n\ttypeset -A opt_args\n\n\t_arguments -C \\\n"
    for name, argument, text in GLOBAL:
        out += f"\t\t{quoted(f'--{name}=[{zsh_text(text)}]:{argument}: ')} \\\n"
    out += "\t\t'(- *)'{-h,--help}'[show help]' '(- *)'{-V,--version}'[show the version]' \\\n"
    out += "\t\t'1:command:_atoll_commands' '*::argument:->arguments'\n\t[[ $state == arguments ]] || return\n"
    out += "\tcurcontext=${curcontext%:*:*}:atoll-$words[1]:\n\tcase $words[1] in\n"
    for command in commands:
        specs = [spec for option in command.options for spec in zsh_option(option)]
        if kind_of(command) == "help":
            specs.append("'1:command:_atoll_commands'")
        elif command.needs_dashes:  # [ID] [OPTION]... -- COMMAND
            specs += ["'1:id: '", "'*::command:_normal'"]
        elif command.runs:
            specs += ["'(-)1:command:_command_names -e'", "'*::argument:_normal'"]
        elif command.is_files:
            specs.append("'*:file:_files'")
        else:
            specs.append("'*:argument: '")
        out += f"\t{command.name})\n\t\t_arguments -s -S \\\n\t\t\t" + " \\\n\t\t\t".join(specs) + "\n\t\t;;\n"
    return out + "\tesac\n}\n\n_atoll \"$@\"\n"


FISH = r"""# fish completion for atoll; made from its option tables

# The command of the line that is being typed: its first word that is neither an option nor the value of one.
function __atoll_command
    set -l is_value false
    for word in (commandline -opc)[2..-1]
        if test $is_value = true
            set is_value false
        else if contains -- $word --host --key
            set is_value true
        else if not string match -q -- '-*' $word
            echo $word
            return
        end
    end
end

function __atoll_is
    test (count (commandline -opc)) -gt 0; and test "$(__atoll_command)" = "$argv[1]"; and not contains -- -- (commandline -opc)
end

function __atoll_runs
    contains -- "$(__atoll_command)" @RUNS@; and contains -- -- (commandline -opc)
end

# What is behind "--": a command line of its own.
function __atoll_inner
    set -l words (commandline -opc) (commandline -ct)
    set -l at (contains -i -- -- $words)
    complete -C (string join ' ' -- (string escape -- $words[(math $at + 1)..-2]) $words[-1])
end

complete -c atoll -f
complete -c atoll -n __atoll_runs -a '(__atoll_inner)'
"""


def fish(commands):
    out = FISH.replace("@RUNS@", joined(command.name for command in commands if command.runs))
    for name, _, text in GLOBAL:
        out += f"complete -c atoll -n '__atoll_is \"\"' -l {name} -x -d {fish_quoted(text)}\n"
    for command in commands:
        out += f"complete -c atoll -n '__atoll_is \"\"' -a {command.name} -d {fish_quoted(command.summary)}\n"
    for command in commands:
        condition = f"-n '__atoll_is {command.name}'"
        for option in command.options:
            value = ""
            if option.argument:
                value = f" -x -a {fish_quoted(joined(option.words))}" if option.words else " -r -F" if option.is_files else " -x"
            letter = f" -s {option.letter}" if option.letter else ""
            out += f"complete -c atoll {condition} -l {option.name}{letter}{value} -d {fish_quoted(option.text)}\n"
        kind = kind_of(command)
        if kind == "files":
            out += f"complete -c atoll {condition} -F\n"
        elif kind == "command":
            out += f"complete -c atoll {condition} -a '(__fish_complete_command)'\n"
        elif kind == "help":
            out += f"complete -c atoll {condition} -a {fish_quoted(joined(other.name for other in commands))}\n"
    return out


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


if __name__ == "__main__":
    program, shell = sys.argv[1:]
    sys.stdout.write({"bash": bash, "zsh": zsh, "fish": fish}[shell](read_tables(program)))
