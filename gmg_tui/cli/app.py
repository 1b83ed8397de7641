"""The command line: declares the commands, each implemented by a module of `gmg_tui.cli`."""

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from gmg_tui.cli.grammar import OPTIONS_KEY, CommandGroup, ConfiguredCommand, ScriptCommand, own_options
from gmg_tui.cli.printing import note
from gmg_tui.model import secrets
from gmg_tui.model.errors import GmgError, suggest
from gmg_tui.session.options import FloatRange, Opt, Options, Program, complete_session, span

GUIDE = Path(__file__).parents[1] / "guide"
TOPICS = (
    *("running", "screen", "alerts", "why", "tuning", "sweeps", "checkpoints", "groups", "sharing"),
    *("many-machines", "metrics", "other-scripts", "troubleshooting", "files", "security", "options", "changes"),
)
"""The pages of the manual, in reading order."""
_LIBRARIES = {"metrics": "prometheus_client", "serve": "textual-serve"}
"""Optional library, by the command that needs it."""


def _print_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    """Prints the version, with the commit in a working tree, and exits."""
    if not wanted or ctx.resilient_parsing:
        return
    from gmg_tui.scripts import interpreter

    click.echo(f"gmg-tui {interpreter.own_version()}")
    ctx.exit()


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def _group() -> None:
    """Run a Genesis script on every GPU of this machine, and monitor and control it."""


def _call(command: str, *args: Any, **options: Any) -> int:
    """Calls `MODULE.FUNCTION`, or `MODULE` if both have the same name; returns the exit status. Raises `GmgError`."""
    command, _, function = command.partition(".")
    try:
        module = importlib.import_module(f"gmg_tui.cli.{command}")
    except ImportError as error:
        if command not in _LIBRARIES or (error.name or "").startswith("gmg_tui"):
            raise
        from gmg_tui.scripts import interpreter

        install = interpreter.install_command(sys.executable, _LIBRARIES[command])
        raise GmgError(f"{command} needs {_LIBRARIES[command]}; install it with: {install}", 1) from None
    from gmg_tui.session import ignored_folders  # already imported by the module

    for text in ignored_folders():
        note(text)
    status: int = getattr(module, function or command)(*args, **options)
    return status


def _start(command: str, *args: Any, **options: Any) -> int:
    """Calls a command's function with an engine, whose process starts while the command is imported."""
    from gmg_tui.cli.prestart import PrestartedEngine

    with PrestartedEngine() as engine:
        return _call(command, *args, engine=engine, **options)


def _options(script: str | None = None) -> Options:
    """Returns the options of the current command. Raises `GmgError` if `--simulate` is given with a script."""
    options: Options = click.get_current_context().meta[OPTIONS_KEY]
    if script is not None and options.simulate is not None:
        raise GmgError(f"--simulate runs the bundled script instead of yours; leave out {script}")
    return options


def _program(script: str | None, args: Sequence[str], *, module: bool) -> Program | None:
    """Returns the workers' program, noting which arguments are also options of gmg-tui; None without a script."""
    if script is None:
        return None
    return Program(script, tuple(args), module, own_options(click.get_current_context().command, args))


_module = click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as for python -m.")
_script = click.argument("script", required=False, metavar="SCRIPT")
_args = click.argument("args", nargs=-1, type=click.UNPROCESSED)
_name = click.argument("name", required=False, shell_complete=complete_session)
_names = click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_session)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@_group.command(cls=ScriptCommand, short_help="Run SCRIPT on every GPU.")
@_module
@_script
@_args
def run(script: str | None, args: tuple[str, ...], module: bool, **_: Any) -> int:
    """Run SCRIPT on every GPU.

    Everything after SCRIPT belongs to it. {slot}, {gpu}, {i}, {n} and {seed} in ARGS and --env are filled in for each
    worker; {{ is a literal brace. All options and settings: gmg-tui guide options.
    """
    options = _options(script)
    if script is None and options.simulate is None:
        raise GmgError("give a SCRIPT, as in: gmg-tui sim.py -B 4096")
    if script is not None and not module and "/" not in script and "." not in script and not _is_own_file(script):
        is_file = f"; for the script of another user: ./{script}" if os.path.exists(script) else ""
        if script in _group.commands:
            raise GmgError(f"options go after the command: gmg-tui {script} …{is_file}")
        hint = suggest(script, _group.commands) or "; gmg-tui --help lists the commands"
        raise GmgError(f"there is no command or script {script}{is_file or hint}")
    return _start("run", options, program=_program(script, args, module=module))


def _is_own_file(name: str) -> bool:
    """True for a file of this user or root; in a folder of all users, anyone could make one called like a mistyped command."""
    with contextlib.suppress(OSError, ValueError):
        return Path(name).lstat().st_uid in (os.getuid(), 0)
    return False


@_group.command(cls=ScriptCommand, short_help="Find the best value of one number.")
@_module
@_script
@_args
def tune(script: str | None, args: tuple[str, ...], module: bool, **_: Any) -> int:
    """Find the best value of one number, such as -B {n_envs}, by measuring SCRIPT on the slots.

    Prints the fastest value, the smallest that is nearly as fast, and the largest that runs. Everything after SCRIPT
    belongs to it. Also takes the options of run: gmg-tui run --help.
    """
    return _start("run.tune", _options(script), program=_program(script, args, module=module))


@_group.command(cls=ScriptCommand, short_help="Queue many jobs on the slots.")
@click.option("--script", "is_script", is_flag=True, help="Run SCRIPT with ARGS instead of a FILE.")
@_module
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="FILE | --script SCRIPT [ARGS]...")
def sweep(words: tuple[str, ...], is_script: bool, module: bool, **_: Any) -> int:
    """Queue jobs on the slots: from FILE (TOML), or with --script, one for each combination of --set.

    Everything after SCRIPT belongs to it: sweep --set n_envs=16,64 --script sim.py -B {n_envs}. Options override
    FILE. Also takes the options of run: gmg-tui run --help.
    """
    options = _options(next(iter(words), None))
    start = partial(_start, "sweep") if options.add is None else partial(_call, "sweep.add")
    if is_script and not words:
        raise GmgError("--script: give the SCRIPT and its arguments after it, at the end")
    if is_script and not options.sets and "--set" in words:
        raise GmgError(f"--set goes before --script: gmg-tui sweep --set … --script {words[0]} …")
    if is_script:
        return start(options, file=None, program=_program(words[0], words[1:], module=module))
    if len(words) > 1:
        hint = "several values are --set KEY=V1,V2" if options.sets else "only a SCRIPT (--script) takes arguments"
        raise GmgError(f"{words[1]}: a sweep has one FILE; {hint}")
    if not words and options.simulate is None and options.resume is None and options.add is None:
        raise GmgError("give a FILE, or --set KEY=V1,V2 --script SCRIPT, or --resume NAME")
    return start(options, file=words[0] if words else None, program=None)


@_group.command(cls=ScriptCommand, short_help="Run the bundled Genesis example.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]...")
def demo(words: tuple[str, ...], **_: Any) -> int:
    """Run the bundled Genesis example: on the GPUs, or on two CPU slots if there are none."""
    return _start("run", _options(), program=None, args=words)


@_group.command(cls=ConfiguredCommand)
@_name
@click.option("--readonly", is_flag=True, help="Watch only; refuse changes.")
def attach(name: str | None, readonly: bool, **_: Any) -> int:
    """Open the screen on a session, by default the newest running one.

    With the NAME of an ended session, show its last state and its logs, read-only.
    """
    return _call("attach", name, _options(), readonly=readonly)


@_group.command
@_json
def ls(as_json: bool) -> int:
    """List the sessions."""
    return _call("ls", as_json=as_json)


@_group.command
@_names
@click.option("--all", "everything", is_flag=True, help="Stop all running sessions.")
def stop(names: tuple[str, ...], everything: bool) -> int:
    """Stop running sessions; NAME is optional if only one is running."""
    return _call("stop", names, everything=everything)


@_group.command
@_names
@click.option("--older", type=span, metavar="AGE", help="Remove sessions that ended more than AGE ago, such as 30d.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Keep the N sessions that ended last.")
@click.option("-y", "--yes", is_flag=True, help="Remove without asking; required without a terminal.")
def rm(names: tuple[str, ...], **options: Any) -> int:
    """Remove ended sessions, by name or by age, with their logs and results.

    Lists them and asks first. Running sessions are never removed.
    """
    return _call("rm", names, **options)


@_group.command
@click.argument("words", nargs=-1, metavar="[NAME] [SLOT|JOB]", shell_complete=complete_session)
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the session or job has ended.")
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="Print only the last N lines.")
def logs(words: tuple[str, ...], follow: bool, lines: int | None) -> int:
    """Print a worker's log, by default from the newest session.

    NAME alone selects its only worker or job, or the only one that has failed.
    """
    return _call("logs", words, follow=follow, max_lines=lines)


@_group.command
@click.argument("words", nargs=-1, metavar="[NAME] [SLOT]", shell_complete=complete_session)
@click.option("--stacks", is_flag=True, help="Always sample Python stacks, to name the hottest function.")
@_json
def why(words: tuple[str, ...], *, stacks: bool, as_json: bool) -> int:
    """Show what limits the speed of a worker, or of all workers, with the figures and what to try.

    If the script's Python code may be the cause, takes 20 samples of its stacks in two seconds.
    """
    return _call("why", words, stacks=stacks, as_json=as_json)


@_group.command
@_names
@click.option("--json", "as_json", is_flag=True, help="Print the detailed results (JSON).")
@click.option("--html", metavar="FILE", help="Write a page with charts.")
@click.option("--bundle", is_flag=True, help="Write a zip archive for a bug report, without secrets.")
@click.option("--show-env", is_flag=True, help="On a terminal, show values of variables named like secrets.")
@click.option("--best", metavar="COLUMN", help="Sort by COLUMN; -COLUMN: smallest first.")
@click.option(
    "--fail-below",
    type=FloatRange(0, 100),
    metavar="PCT",
    help="Exit with 1 if another session is more than PCT % slower than the first, beyond the noise.",
)
def report(names: tuple[str, ...], *, show_env: bool, **options: Any) -> int:
    """Print what a session did, or compare several."""
    if show_env and sys.stdout.isatty():
        secrets.disable_masking()
    return _call("report", names, **options)


report.params.append(
    Opt(
        "csv",
        click.Choice(("jobs", "raw", "metrics")),
        "[raw|metrics]",
        "Print the results (CSV). raw: no apostrophe before formula-like text; metrics: values over time.",
        bare="jobs",
    )
)


@_group.command
@_json
def gpus(as_json: bool) -> int:
    """Print one line for each GPU."""
    return _call("gpus", as_json=as_json)


@_group.command
@click.option("--listen", metavar="HOST:PORT", help="Address to serve. [default: 127.0.0.1:9400]")
@click.option("--textfile", metavar="FILE", help="Write FILE every 15 s instead, for node_exporter.")
def metrics(**options: Any) -> int:
    """Export Prometheus metrics for running sessions."""
    return _call("metrics", **options)


@_group.command
@_name
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8400, metavar="N", help="Port; 0 for any free one. [default: 8400]"
)
def serve(name: str | None, port: int) -> int:
    """Serve the screen of a running session to a browser on this machine, read-only."""
    return _call("serve", name, port)


@_group.command
@click.argument(
    "topic", required=False, shell_complete=lambda ctx, param, word: [name for name in TOPICS if name.startswith(word)]
)
def guide(topic: str | None) -> None:
    """Open the manual, or print it if there is no terminal."""
    pages = {name: Path(GUIDE, f"{name}.md").read_text("utf-8").strip() for name in TOPICS}
    if topic is not None and topic not in pages:
        found = [name for name, text in pages.items() if topic.lower() in text.lower()]
        hint = f"; see {', '.join(found)}" if found else f"; the topics are: {', '.join(TOPICS)}"
        raise GmgError(f"there is no topic {topic}{suggest(topic, TOPICS) or hint}")
    text = pages[topic] if topic is not None else "\n\n".join(pages.values())
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(text)
        return
    from gmg_tui.ui.pages.help import GuideApp

    GuideApp(text, contents=topic is None).run()


@_group.command
@click.option("--python", metavar="PATH", help="The workers' interpreter, as for run.")
@_json
def doctor(python: str | None, as_json: bool) -> int:
    """Check this machine: driver, GPUs, Genesis, EGL, caches, disk."""
    return _call("doctor", python, as_json=as_json)


@_group.command(hidden=True)
def agent() -> int:
    """Connect a node's agent to standard input and output, for launchers."""
    return _call("agent")


main = _group.main
