"""No engine outlives the test that started it."""

from __future__ import annotations

from tests.cli.conftest import no_engine_survives as no_engine_survives
