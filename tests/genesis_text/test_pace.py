"""How often a script reports progress."""

from __future__ import annotations

from gmg_tui.genesis.output.reader import Reader

RATE = b"[Genesis] [12:00:00] [INFO] Running at 1,000.00 FPS (10.00 FPS per env, 100 envs).\n"


def test_only_progress_is_a_report() -> None:
    reader = Reader(gpu_slot=False, started=0.0)
    reader.feed(b"hello\n", 1.0)
    assert reader.pace.last_at is None
    reader.feed(RATE, 5.0)
    reader.feed(b"hello\n", 6.0)
    assert reader.pace.last_at == 5.0


def test_the_usual_interval_is_the_longest_of_the_last_ones() -> None:
    reader = Reader(gpu_slot=False, started=0.0)
    for now in (10.0, 11.0, 15.0, 16.0):
        reader.feed(RATE, now)
    assert reader.pace.usual_s == 4.0
    for now in range(17, 40):
        reader.feed(RATE, float(now))
    assert reader.pace.usual_s == 1.0


def test_a_flood_of_lines_is_read_too() -> None:
    reader = Reader(gpu_slot=False, started=0.0)
    for now in range(10):
        reader.feed(RATE * 50, float(now))
    assert (reader.pace.last_at, reader.pace.usual_s) == (9.0, 1.0)


def test_iterations_of_rsl_rl_are_reports() -> None:
    reader = Reader(gpu_slot=False, started=0.0)
    for number in range(3):
        reader.feed(f"Learning iteration {number}/10\n".encode(), 20.0 * number)
        reader.feed(b"Computation: 5000 steps/s (collection: 0.010s, learning 0.010s)\n", 20.0 * number + 0.01)
    assert reader.pace.last_at == 40.01
    assert 19.0 < reader.pace.usual_s < 21.0
