"""Sessions on several nodes at fixed moments."""

from gmg_tui.model import NodeView, Session, Snapshot
from tests.ui import play, sessions
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import FakedApp
from tests.workers import changed

CARDS = 4
"""GPUs of each node."""


def name(slot: int, cards: int = CARDS) -> str:
    return f"n{slot // cards + 1}/gpu{slot % cards}"


def session(nodes: int = 2, cards: int = CARDS) -> Session:
    base = sessions.session(nodes * cards)
    slots = tuple(changed(slot, name=name(at, cards), node=f"n{at // cards + 1}") for at, slot in enumerate(base.slots))
    return changed(base, slots=slots)


def snapshot(of: Snapshot, nodes: int = 2, cards: int = CARDS, *, views: tuple[NodeView, ...] = ()) -> Snapshot:
    workers = tuple(changed(worker, slot=name(worker.index, cards)) for worker in of.workers)
    by_name = {view.name: view for view in views}
    names = (f"n{number + 1}" for number in range(nodes))
    return changed(of, workers=workers, nodes=tuple(by_name.get(name, NodeView(name)) for name in names))


def lost(of: Snapshot, node: str, since: float) -> Snapshot:
    """`of` with a node that is lost."""
    workers = tuple(
        changed(worker, lost_since=since) if worker.slot.startswith(f"{node}/") and not worker.state.ended else worker
        for worker in of.workers
    )
    views = tuple(
        changed(view, connected=False, lost_since=since, trouble="ssh: connect to host n2: No route to host")
        if view.name == node
        else view
        for view in of.nodes
    )
    gone = {slot.gpu.uuid for slot in session(len(of.nodes)).slots if slot.gpu is not None and slot.node == node}
    return changed(
        of, workers=workers, nodes=views, samples=tuple(sample for sample in of.samples if sample.uuid not in gone)
    )


def varied() -> Snapshot:
    """Nearly every state on the first node; the second has a stuck worker and a lost GPU."""
    return snapshot(sessions.varied_snapshot())


def engine_of(shown: Snapshot, nodes: int = 2, cards: int = CARDS) -> FakeEngine:
    whole = session(nodes, cards)
    recent = tuple(
        changed(series, slot=name(at, cards)) for at, series in enumerate(sessions.recent(min(16, nodes * cards)))
    )
    log = {slot.name: sessions.log_of(play.LOG_LINES) for slot in whole.slots}
    return FakeEngine(whole, shown, recent=recent, log=log)


def app_of(shown: Snapshot, nodes: int = 2, cards: int = CARDS) -> FakedApp:
    return play.app_of(engine_of(shown, nodes, cards))


def busy(nodes: int = 2, cards: int = CARDS, *, second: float = 0.0) -> FakedApp:
    return app_of(snapshot(sessions.busy_snapshot(nodes * cards, second), nodes, cards), nodes, cards)
