"""The checkout itself: what is tracked, what is installed, how it is pinned, how long a module gets."""

import ast
import re
import socket
import subprocess
import sysconfig
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))

# Written so that they do not match themselves.
REGISTRY = re.compile(r"python[h]osted|pypi[.]org|registry[.]npmjs|deb[.]debian")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root)/")

# A line of a .pth file that starts with `import` runs at every start of Python: the way in of several attacks.
PTH_FILES = {"_editable_impl_trialrun.pth"}

LONGEST_MODULE = 450
LONGER_FOR_A_REASON: dict[str, str] = {
    "src/trialrun/providers/rehearsal/lines.py": "a table of sentences",
}


def tracked_files() -> list[Path]:
    """Files in git, and new ones that git does not ignore."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    files = (ROOT / name for name in sorted(set(listed.split("\0")) - {""}))
    return [file for file in files if file.is_file()]


def pinned(path: Path) -> list[tuple[Requirement, list[str]]]:
    """The requirements of a file, each with its hashes."""
    logical = path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    lines = [line for line in logical if line and not line.startswith("#")]
    return [(Requirement(line.split("--hash=")[0]), re.findall(r"--hash=(\S+)", line)) for line in lines]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("pattern", [REGISTRY, MACHINE_PATH], ids=["registry", "path"])
def test_no_file_names_a_registry_or_a_place_on_one_machine(pattern: re.Pattern[str]):
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for file in tracked_files()
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_only_known_pth_files_are_in_the_environment():
    folders = {Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))}
    files = [file for folder in folders for file in folder.glob("*.pth")]
    assert {file.name for file in files} <= PTH_FILES
    assert [
        file.name
        for file in files
        if re.search(r"^\s*import\b", file.read_text(encoding="utf-8"), re.MULTILINE)
    ] == []


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_every_requirement_is_one_version_pinned_by_hash(path: Path):
    entries = pinned(path)
    assert entries
    for requirement, hashes in entries:
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert requirement.url is None
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes), requirement


def members(name: str, groups: dict[str, list[Any]]) -> list[str]:
    """The requirements of a group, with those of the groups that it includes."""
    included = (
        members(entry["include-group"], groups) if isinstance(entry, dict) else [entry]
        for entry in groups[name]
    )
    return list(chain.from_iterable(included))


def test_every_declared_dependency_is_among_the_pins():
    declared = project()
    groups = declared["dependency-groups"]
    extras = chain.from_iterable(declared["project"]["optional-dependencies"].values())
    wanted = {
        "dev": [*declared["project"]["dependencies"], *extras, *members("dev", groups)],
        "bootstrap": groups["bootstrap"],
        "model": groups["model"],
    }
    assert {path.stem for path in REQUIREMENTS} == set(wanted)
    for path in REQUIREMENTS:
        pins = [requirement for requirement, _ in pinned(path)]
        for text in wanted[path.stem]:
            asked = Requirement(text)
            versions = [
                str(pin.specifier).removeprefix("==")
                for pin in pins
                if canonicalize_name(pin.name) == canonicalize_name(asked.name)
            ]
            assert versions, f"{text} is not in {path.name}: run ./dev lock"
            assert all(asked.specifier.contains(version) for version in versions), f"{text}: run ./dev lock"


def test_every_module_says_what_it_is_for():
    modules = (ROOT / "src").rglob("*.py")
    assert [
        str(m.relative_to(ROOT))
        for m in modules
        if not ast.get_docstring(ast.parse(m.read_text(encoding="utf-8")))
    ] == []


def test_no_module_is_too_long_to_read_in_one_sitting_without_a_reason():
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines())
        for file in tracked_files()
        if file.suffix == ".py"
    }
    too_long = {name for name, lines in lengths.items() if lines > LONGEST_MODULE}
    assert too_long == set(LONGER_FOR_A_REASON)


def test_a_test_that_leaves_the_machine_is_stopped():
    with pytest.raises(BaseException, match=r"192\.0\.2\.1"), socket.socket() as outside:
        outside.connect(("192.0.2.1", 443))
    with pytest.raises(BaseException, match=r"example\.com"):
        socket.getaddrinfo("example.com", 443)


def test_a_test_may_talk_to_this_machine(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1]), timeout=5).close()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "socket"))
        server.listen()
        client.connect(str(tmp_path / "socket"))
