"""Which part of a queue is asked for, and where the choice stays while the queue changes."""

from __future__ import annotations

from gmg_tui.model import JobRecord, QueueView, WorkerState
from gmg_tui.ui.screens.queue.window import QueueWindow
from tests.ui import sweeps

ROWS = 15


class _Queue:
    """Answers as an engine does, and counts."""

    def __init__(self, jobs: list[JobRecord], rows: int = ROWS) -> None:
        self.version = 0
        self.change(jobs)
        self.asked: list[tuple[int, int]] = []
        self.window = QueueWindow(len(jobs), self.done)
        self.window.fit(rows)

    def look(self) -> None:
        wanted = self.window.wanted(self.version, self.done)
        if wanted is not None:
            self.asked.append(wanted)
            first, number = wanted
            part = self.jobs[first : first + number]
            self.window.take(QueueView(self.version, first, len(self.jobs), tuple(part), (), ()))

    def change(self, jobs: list[JobRecord]) -> None:
        self.jobs = jobs
        self.version += 1
        self.done = sum(1 for job in jobs if job.state.ended)

    @property
    def chosen(self) -> int | None:
        return self.window.chosen.number if self.window.chosen else None

    @property
    def visible(self) -> list[int]:
        places = range(self.window.top, min(self.window.total, self.window.top + ROWS))
        return [job.number for place in places if (job := self.window.record(place)) is not None]


def _move(jobs: list[JobRecord], number: int, to: int) -> list[JobRecord]:
    job = next(job for job in jobs if job.number == number)
    rest = [one for one in jobs if one is not job]
    return [*rest[:to], job, *rest[to:]]


def test_the_first_job_that_runs_is_chosen_and_followed_until_another_one_is() -> None:
    queue = _Queue(sweeps.jobs(300, 100))
    queue.look()
    assert queue.chosen == 101
    queue.change(sweeps.jobs(300, 140))
    queue.look()
    assert queue.chosen == 141
    queue.window.choose(queue.window.at + 1)
    queue.change(sweeps.jobs(300, 145))
    queue.look()
    assert queue.chosen == 142
    queue.window.choose(queue.done, follow=True)
    queue.look()
    assert queue.chosen == 146


def test_the_end_of_the_queue_is_followed_to_its_last_job() -> None:
    queue = _Queue(sweeps.jobs(60, 57))
    queue.look()
    queue.change(sweeps.jobs(60, 60))
    queue.look()
    assert queue.chosen == 60


def test_nothing_is_asked_while_what_is_visible_is_known() -> None:
    queue = _Queue(sweeps.jobs(10_000, 4000))
    for _ in range(50):
        queue.look()
    assert len(queue.asked) == 1
    first, number = queue.asked[0]
    assert number <= 4 * max(ROWS, 20)
    assert first <= 4000 < first + number


def test_ten_thousand_jobs_are_read_with_few_questions_each_of_few_jobs() -> None:
    queue = _Queue(sweeps.jobs(10_000, 4000))
    queue.look()
    queue.window.choose(0)
    for _ in range(10_000):
        queue.look()
        assert queue.chosen == queue.window.at + 1
        queue.window.choose(queue.window.at + 1)
    assert queue.chosen == 10_000
    assert len(queue.asked) < 10_000 / ROWS
    assert max(number for _, number in queue.asked) < 100


def test_a_changed_queue_is_asked_for_once_and_an_older_snapshot_does_not_ask_again() -> None:
    queue = _Queue(sweeps.jobs(300, 100))
    queue.look()
    queue.change(sweeps.jobs(300, 101))
    queue.look()
    queue.look()
    assert len(queue.asked) == 2
    ahead = QueueView(7, 80, 300, tuple(queue.jobs[80:140]), (), ())
    queue.window.take(ahead)  # newer than the snapshot
    queue.look()
    queue.version = 7
    queue.look()
    assert len(queue.asked) == 2


def test_the_choice_stays_on_its_job_and_its_row_while_others_end() -> None:
    queue = _Queue(sweeps.jobs(300, 100))
    queue.look()
    queue.window.choose(110)
    queue.look()
    row = queue.visible.index(111)
    queue.change(_move(queue.jobs, 250, 50))  # one that waited was skipped: all behind it stand one place further down
    queue.look()
    assert queue.chosen == 111
    assert queue.visible.index(111) == row


def test_a_job_that_is_moved_is_followed_up_and_down_and_to_the_top() -> None:
    queue = _Queue(sweeps.jobs(300, 100))
    queue.look()
    queue.window.choose(250)
    queue.look()
    assert queue.chosen == 251
    queue.change(_move(queue.jobs, 251, 249))
    queue.look()
    assert (queue.chosen, queue.window.at) == (251, 249)
    queue.change(_move(queue.jobs, 251, 103))
    queue.window.expect(251, 103)
    assert queue.chosen is None  # the answer may not act on another one meanwhile
    queue.look()
    assert (queue.chosen, queue.window.at) == (251, 103)


def test_leaving_a_job_chooses_the_next_or_the_one_before_the_last() -> None:
    queue = _Queue(sweeps.jobs(30, 12))
    queue.look()
    queue.window.choose(20)
    queue.window.leave()
    assert queue.chosen == 22
    queue.window.choose(29)
    queue.window.leave()
    assert queue.chosen == 29


def test_an_empty_queue_and_one_job_are_no_trouble() -> None:
    empty = _Queue([])
    empty.look()
    empty.window.choose(empty.window.at + 1)
    empty.window.leave()
    empty.look()
    assert empty.chosen is None
    one = _Queue(sweeps.jobs(1, 0, running=0))
    one.look()
    one.window.choose(one.window.at + 5)
    assert one.chosen == 1
    assert one.window.chosen is not None
    assert one.window.chosen.state is WorkerState.WAITING
