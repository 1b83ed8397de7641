"""Click's completion in bash, zsh and fish, with the shell's own file completion."""

import os
from glob import escape, glob

from click import shell_completion
from click.shell_completion import CompletionItem

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        if [[ $type == plain ]]; then
            COMPREPLY+=("$value")
        else
            compopt -o filenames
            COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}"))
        fi
    done < <(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1")
}

complete -o nosort -o bashdefault -o default -F %(complete_func)s %(prog_name)s
"""


class _Completion(shell_completion.ShellComplete):
    """Also completes the options of `run` if no command is given, and values after `=`."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Returns the completions of the incomplete word."""
        args = [arg for arg in args if arg != "="]  # bash passes `=` as a word of its own
        if not args and incomplete.startswith("-"):
            args = ["run"]
        return super().get_completions(args, incomplete)


class _WholeWordCompletion(_Completion):
    """Completion for shells that replace the whole word, and complete files only if told to."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Returns the completions of the incomplete word, or files."""
        items = super().get_completions(args, incomplete)
        option, sign, value = incomplete.partition("=")
        if not sign or not option.startswith("--"):
            return items or [CompletionItem(incomplete, "file")]
        # `Path.glob` would drop a `./`.
        items = items or [
            CompletionItem(f"{path}{'/' * os.path.isdir(path)}")
            for path in sorted(glob(f"{escape(value)}*"))  # noqa: PTH207
        ]
        return [CompletionItem(f"{option}={item.value}", help=item.help) for item in items]


@shell_completion.add_completion_class
class _Bash(_Completion, shell_completion.BashComplete):
    source_template = _BASH


@shell_completion.add_completion_class
class _Zsh(_WholeWordCompletion, shell_completion.ZshComplete):
    pass


@shell_completion.add_completion_class
class _Fish(_WholeWordCompletion, shell_completion.FishComplete):
    pass
