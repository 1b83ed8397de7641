"""The shell script that starts an agent on a node, where other users may have made this user's folders."""

import base64
import inspect
import os
import re
import shlex
import sys
import zlib
from functools import cache

import gmg_tui
from gmg_tui.machine import ownership
from gmg_tui.scripts import import_paths
from gmg_tui.scripts.interpreter import import_paths_of

AGENT_COMMAND = (sys.executable, "-P", "-m", "gmg_tui", "agent")
"""Command that starts or finds the node's agent."""
_PLAIN_PATH = re.compile(r"/[\w/.+-]*", re.ASCII)
"""A path that means the same in any shell."""
_CHECK_TIMEOUT_S = 60
_RUN_CHECK = "import base64, sys, zlib; exec(zlib.decompress(base64.b64decode(sys.argv[1])))"
_SCRIPT = """
old=$PATH; PATH=/usr/bin:/bin:$PATH; me=$(id -u); system=$(stat -c %u /);
own() {
    s=$(stat -c "%A %u %U" "$1" 2>&-); mode=${s%% *}; s=${s#* }; uid=${s%% *}; s=${s#* };
    case $s in UNKNOWN) mark=#$uid;; *) mark=$s;; esac;
    case ,=0,=$me,$trusted in
        *",=$uid,"*|*",$mark,"*|*",$uid/$s,"*) ;;
        *) [ "$uid" = "$system" ] || return; case $parent in ????????w?|?????w???[tT]) return 1;; esac;;
    esac;
    case $mode in l*) ;; *) parent=$mode;; esac;
};
owned() {
    at=; name=; left=$1; links=0; parent=; own / || return;
    while [ -n "$left" ]; do
        left=${left#/}; name=${left%%/*}; case $left in */*) left=/${left#*/};; *) left=;; esac;
        case $name in ""|.) continue;; ..) at=${at%/*}; continue;; esac;
        own "$at/$name" || return;
        link=$(readlink "$at/$name") || { at=$at/$name; continue; };
        links=$((links + 1)); [ $links -le 40 ] || return;
        case $link in /*) at=;; esac; left=/$link$left;
    done;
};
refuse() { echo "$1 is missing or another user's here: gmg-tui is not run" >&2; exit 1; };
find_own() {
    g=$(PATH=$old; command -v gmg-tui); case $g in /*) ;; *) refuse gmg-tui;; esac;
    owned "$g" || refuse "$g"; { read -r first; read -r second; } < "$g";
    i=${first#??}; i=${i#"${i%%[! ]*}"};
    case $i in
        */env" "*) i=${i#*/env }; i=${i#-S }; i=${i%% *}; case $i in /*) ;; *) i=$(PATH=$old; command -v "$i");; esac;;
        *) i=${i%% *};;
    esac;
    case $second in "'''exec' "*)
        i=${second#"'''exec' "}; case $i in '"'*) i=${i#'"'}; i=${i%%'"'*};; *) i=${i%% *};; esac;;
    esac;
    case $i in /*) owned "$i";; *) false;; esac || refuse "the interpreter of $g";
};
ours=FOLDERS; [ -z "$(printf %s "$old" | tr -d A-Za-z0-9_/.+:-)" ] || ours=:$old:;
trusted=SEARCHED; new=; set -f; IFS=:;
for folder in $old; do case $ours in *:"$folder":*) owned "$folder";; esac && new=$new:$folder; done;
unset IFS; set +f; old=${new#:}; trusted=OWNERS;
g=; if owned PYTHON; then set -- COMMAND; else find_own; set -- "$g" agent; case ${i##*/} in py*) set -- "$i" "$@";; esac; fi;
[ "$1" = "$g" ] || "$1" -I -S -c CHECK >&2 || exit;
PATH=$old; exec "$@"
"""
"""Searches its own programs in the system's folders first.

`own` is true for files of root, this user, and users with `trusted` marks (`ownership.marks`); in a user namespace root's may
seem to be another user's, as all of the system's. `owned` follows links as the kernel does, and is true if each component exists
and is trusted: nobody else can then replace the path. PATH loses the folders of other users: Slurm passes on the session's.
`find_own` finds the node's own gmg-tui, and its interpreter by the first line, or by the second, as pip writes it if the path is
long. It may also be a user's own wrapper in another language.
"""


@cache
def agent_script() -> str:
    """Returns a script for `sh` that runs `AGENT_COMMAND` on a node, or the node's own gmg-tui. May wait for a disk.

    It runs the latter if there the interpreter is missing or has an owner who is not trusted here. It fails if the latter
    has such an owner, or anything that an agent imports there, or if any user could create that.

    A login shell reads it first: csh would replace `!` before a letter and ends at a line feed, and fish reads a backslash,
    even within quotes.
    """
    python = AGENT_COMMAND[0]
    folders = [folder for folder in os.get_exec_path() if _PLAIN_PATH.fullmatch(folder)]
    imports = import_paths_of(python, "", None, os.environ)
    named = ownership.trusted_owners(*(path for path in imports if not os.path.islink(path)))  # they may lead to data
    trusted = ownership.marks([*ownership.owners(python, gmg_tui.__file__), *named])
    values = {
        "OWNERS": _listed(trusted),
        "SEARCHED": _listed(ownership.marks(ownership.trusted_owners(*folders))),
        "FOLDERS": shlex.quote(":".join(["", *folders, ""])),
        "PYTHON": shlex.quote(python),
        "COMMAND": shlex.join(AGENT_COMMAND),
        "CHECK": f"{shlex.quote(_RUN_CHECK)} {_pack_check(trusted)}",
    }
    lines = " ".join(map(str.strip, _SCRIPT.split("\n"))).strip()
    return re.sub("|".join(values), lambda match: values[match[0]], lines)


def _listed(marks: list[str]) -> str:
    return shlex.quote("".join(f"{mark}," for mark in marks))


def _pack_check(trusted: list[str]) -> str:
    """Returns a Python program, packed, that fails if the interpreter on a node must not import from one of its paths.

    It imports nothing but the standard library, as gmg-tui itself is among these.
    """
    texts = [inspect.getsource(module) for module in (import_paths, ownership)]
    limit = f"import signal\nsignal.alarm({_CHECK_TIMEOUT_S})"
    check = f"sys.exit(refusal_of_any(import_paths('', '', os.environ), {trusted!r}, optional=True))"
    return base64.b64encode(zlib.compress("\n".join([limit, *texts, check]).encode())).decode()
