"""The shell script that starts an agent on a node, where other users may have made this user's folders."""

import re
import shlex
import sys
from functools import cache

import gmg_tui
from gmg_tui.machine import ownership

AGENT_COMMAND = (sys.executable, "-P", "-m", "gmg_tui", "agent")
"""Command that starts or finds the node's agent."""
_SCRIPT = """
old=$PATH; PATH=/usr/bin:/bin:$PATH; me=$(id -u); system=$(stat -c %u /); trusted=OWNERS;
own() {
    s=$(stat -c "%A %u %U" "$1" 2>&-); mode=${s%% *}; s=${s#* }; uid=${s%% *}; s=${s#* };
    [ -n "$uid" ] || return;
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
        i=${second#"'''exec' "};
        case $i in '"'*) i=${i#'"'}; i=${i%%'"'*};; "'"*) i=${i#"'"}; i=${i%%"'"*};; *) i=${i%% *};; esac;;
    esac;
    case $i in /*) owned "$i";; *) false;; esac || refuse "the interpreter of $g";
};
if owned PYTHON && owned PACKAGE; then set -- COMMAND; else
    find_own; set -- "$g" agent; case ${i##*/} in py*) set -- "$i" "$@";; esac;
fi;
PATH=$old; exec "$@"
"""
"""Searches its own programs in the system's folders first.

`own` is true for files of root, this user, and users with `trusted` marks (`ownership.marks`); in a user namespace root's may
seem to be another user's, as all of the system's. `owned` follows links as the kernel does, and is true if each component exists
and is trusted: nobody else can then replace the path. `find_own` finds the node's own gmg-tui, and its interpreter by the first line,
or by the second, as pip and uv write it if the path is long. It may also be a user's own wrapper in another language.
"""


@cache
def agent_script() -> str:
    """Returns a script for `sh` that runs `AGENT_COMMAND` on a node, or the node's own gmg-tui. May wait for a disk.

    It runs the latter if there the interpreter or the package is missing or has an owner who is not trusted here. It fails
    if the latter has such an owner.

    A login shell reads it first: csh would replace `!` before a letter and ends at a line feed, and fish reads a backslash,
    even within quotes.
    """
    python, package = AGENT_COMMAND[0], gmg_tui.__file__
    values = {
        "OWNERS": shlex.quote("".join(f"{mark}," for mark in ownership.marks(ownership.owners(python, package)))),
        "PYTHON": shlex.quote(python),
        "PACKAGE": shlex.quote(package),
        "COMMAND": shlex.join(AGENT_COMMAND),
    }
    lines = " ".join(map(str.strip, _SCRIPT.split("\n"))).strip()
    return re.sub("|".join(values), lambda match: values[match[0]], lines)
