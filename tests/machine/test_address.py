"""The address by which other machines reach this one, in a network namespace of its own."""

import socket
import subprocess
import sys
from typing import Any

import pytest

from gmg_tui.machine.address import LOOPBACKS, address_for, is_numeric, is_reachable, launch_hosts, listening

_NETWORK = """
ip link set lo up
ip addr add 10.8.0.1/24 dev lo
ip addr add 10.9.0.1/24 dev lo
"""
_LOOK = """
import sys
from gmg_tui.machine.address import address_for
print(*(address_for(peers.split()) for peers in sys.argv[1:]))
"""


def _addresses(setup: str, *peers: str) -> list[str]:
    look = ["unshare", "--net", "sh", "-ec", f'{setup}\nexec "$@"', "sh", sys.executable, "-c", _LOOK, *peers]
    done = subprocess.run(look, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no network namespace can be made here: {done.stderr.strip()[-200:]}")
    return done.stdout.split()


@pytest.mark.parametrize("taken", LOOPBACKS)
def test_no_other_user_gets_what_is_sent_to_localhost(taken: str) -> None:
    """It is ::1 for some programs, as for sshd, and 127.0.0.1 for others."""
    with listening("localhost", 0) as sockets:
        assert tuple(each.getsockname()[0] for each in sockets) == LOOPBACKS
        assert len({each.getsockname()[1] for each in sockets}) == 1
    with (
        socket.create_server((taken, 0), family=socket.AF_INET6 if ":" in taken else socket.AF_INET) as other,
        pytest.raises(OSError, match="in use"),
        listening("127.0.0.1", other.getsockname()[1]),
    ):
        pass


def test_another_free_port_is_tried_where_the_first_is_in_use_on_the_other_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create, taken, tried = socket.create_server, list[socket.socket](), list[int]()

    def take_first(address: tuple[str, int], **options: Any) -> socket.socket:
        if address[0] == "::1" and len(tried) < 2:
            tried.append(address[1])
            taken.append(create(address, **options))
        return create(address, **options)

    monkeypatch.setattr(socket, "create_server", take_first)
    with listening("127.0.0.1", 0) as sockets:
        ports = {each.getsockname()[1] for each in sockets}
    for other in taken:
        other.close()
    assert len(tried) == 2
    assert len(ports - {*tried}) == 1


def test_the_address_is_that_of_the_route_to_another_machine() -> None:
    found = _addresses(
        _NETWORK, "10.8.0.7", "127.0.1.1 10.9.0.7", "localhost", "no-such-host.invalid 10.8.0.7", "10.9.0.1"
    )
    assert found == ["10.8.0.1", "10.9.0.1", "None", "10.8.0.1", "10.9.0.1"]


def test_without_a_named_machine_the_default_route_counts() -> None:
    assert _addresses(f"{_NETWORK}\nip route add default dev lo src 10.9.0.1", "127.0.1.1", "") == ["10.9.0.1"] * 2


def test_ssh_and_slurm_name_the_machine_that_started_a_process() -> None:
    assert launch_hosts({"SSH_CONNECTION": "10.0.0.2 51234 10.0.0.3 22"}) == ("10.0.0.2",)
    assert launch_hosts({"SLURM_LAUNCH_NODE_IPADDR": "10.0.0.4", "SLURM_SUBMIT_HOST": "login"}) == ("10.0.0.4", "login")
    assert launch_hosts({}) == ()
    assert [is_numeric(name) for name in ("10.0.0.2", "fe80::1%eth0", "login", "")] == [True, True, False, False]
    assert address_for(("127.0.0.1",)) == address_for(())


@pytest.mark.parametrize(
    ("address", "reachable"),
    [
        ("10.0.0.7", True),
        ("2001:db8::7", True),
        ("localhost", False),
        ("node7", False),
        ("127.9.9.9", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("fe80::1", False),
        ("2001:db8::7%\0", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("", False),
    ],
)
def test_only_an_address_of_a_network_is_reachable(address: str, reachable: bool) -> None:
    assert is_reachable(address) is reachable
