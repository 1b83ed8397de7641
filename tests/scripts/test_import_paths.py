"""The paths from which a worker's interpreter imports."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import import_paths
from gmg_tui.scripts.interpreter import import_paths_of


@pytest.mark.process
def test_code_is_found_wherever_links_and_metadata_lead(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    find_site = (python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    site = Path(subprocess.run(find_site, capture_output=True, text=True, check=True).stdout.strip())
    (site / "paths.pth").write_text("# comment\nimport sys\n/only/on/a/node\n\n../relative\n")
    for name, url, is_editable in (("ours", "file:///our%20code", True), ("theirs", "file:///theirs", False)):
        (info := site / f"{name}-1.dist-info").mkdir()
        (info / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {"editable": is_editable}}))
    (site / "broken-1.dist-info").mkdir()
    (site / "broken-1.dist-info" / "direct_url.json").write_text("[]")
    (code := tmp_path / "walking").mkdir()
    (code / "walk.py").touch()
    (spaced := tmp_path / "namespace" / "core").mkdir(parents=True)
    (spaced / "core.py").touch()
    (data := tmp_path / "data").mkdir()
    (script := tmp_path / "script").mkdir()
    (script / ".#sim.py").symlink_to("alice@host.4711:1764359999")  # as Emacs locks files
    for link, target in (("walks", code), ("data", data), ("module.py", code / "walk.py"), ("gone", tmp_path / "gone")):
        (script / link).symlink_to(target)
    (site / "package").symlink_to(code)
    (script / "spaced").symlink_to(spaced.parent)
    paths = import_paths_of(str(python), str(script), None, {})
    linked = {path for path in paths if Path(path).is_symlink() or "node" in path or "our" in path or ".." in path}
    assert linked == {
        *("/only/on/a/node", f"{site}/../relative", "/our code", f"{site}/package"),
        *(f"{script}/walks", f"{script}/module.py", f"{script}/spaced"),
        *(f"{script}/data", f"{script}/gone"),  # in `/tmp`, they may lead to code in time
    }
    assert {str(site), sys.base_prefix} <= {*paths}
    assert str(code) in import_paths_of(str(python), str(tmp_path), "walking", {})
    (spaced / "wandb").symlink_to(code)
    assert f"{spaced}/wandb" in import_paths_of(str(python), "", None, {"PYTHONPATH": "core"}, str(spaced.parent))
    os.mkfifo(site / "pipe.pth")
    (site / "huge-1.dist-info").mkdir()
    with (site / "huge-1.dist-info" / "direct_url.json").open("wb") as file:
        file.truncate(1 << 40)
    (site / "latin.pth").write_bytes(b"/caf\xe9\n")
    assert "/caf\udce9" in import_paths_of(str(python), str(script), None, {"LANG": "en_US.UTF-8"})
    with pytest.raises(GmgError, match="/missing/python cannot be run: No such file"):
        import_paths_of("/missing/python", str(tmp_path), None, {})
    with pytest.raises(GmgError, match="/bin/false does not say"):
        import_paths_of("/bin/false", str(tmp_path), None, {})


@pytest.mark.parametrize(
    ("name", "target", "counts"),
    [
        *(("data", "data", False), ("wandb", "scratch/us", True), ("wandb", "scratch/ours", True)),
        *(("walk.py", "scratch/walk.py", True), ("walk.py", "gone.py", False), ("data.csv", "scratch/x", False)),
        *(("gone", "gone", False), ("my-runs", "scratch/us", False), ("core.cpython-311.so", "scratch/core.so", True)),
        ("wandb", "link", True),
    ],
)
def test_a_link_into_a_folder_of_all_users_counts_whatever_is_there(
    name: str, target: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user could hide it, or add it later."""
    monkeypatch.setattr(import_paths, "_is_public", lambda folder: folder.name == "scratch")
    for folder in ("data", "scratch/ours"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "link").symlink_to("scratch/us")
    path = tmp_path / "folder" / name
    path.parent.mkdir()
    path.symlink_to(tmp_path / target)
    assert import_paths._may_be_code(path) is counts
