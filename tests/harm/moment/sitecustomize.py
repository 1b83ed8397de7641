"""Sends a signal to the first process that loads it, at a moment named by an audit event: `GMG_TEST_MOMENT=SIGNAL:EVENT:N`.

N counts the events of that name from 1. The variable is removed, so that children start undisturbed.
"""

import os
import sys


def _install(moment: str) -> None:
    number, event, count = moment.split(":")
    pid, left = os.getpid(), int(count)

    def hook(name: str, _: object) -> None:
        nonlocal left
        if name == event and os.getpid() == pid:
            left -= 1
            if left == 0:
                os.kill(pid, int(number))

    sys.addaudithook(hook)


if "GMG_TEST_MOMENT" in os.environ:
    _install(os.environ.pop("GMG_TEST_MOMENT"))
