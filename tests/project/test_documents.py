"""Link targets of the documents exist, and so do the commands and options that they name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import shadowtree
from shadowtree import errors

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(
    r"^\$? ?shadowtree(?: --?[a-z-]+(?:[= ][^-\s]\S*)?)* ([a-z]+(?:-[a-z]+)*)(?: (create|delete|list|describe)\b)?",
    re.M,
)
SOURCE = re.compile(r"`(?:\.\.\./)?((?:\w+/)*\w+\.(?:py|txt|proto))`")
MAKE = re.compile(r"`make ([a-z]+)`|^\$? ?make ([a-z]+)", re.M)


def place(path):
    return str(path.relative_to(ROOT))


def anchors(text):
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_nowhere(document, target):
    path, _, anchor = target.partition("#")
    found = (document.parent / path).resolve() if path else document
    return not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors(found.read_text()))


def test_every_relative_link_leads_somewhere():
    targets = [
        (document, target)
        for document in DOCUMENTS
        for target in LINK.findall(document.read_text())
        if "://" not in target and not target.startswith("mailto:")
    ]
    assert targets
    assert not [f"{place(document)}: {target}" for document, target in targets if leads_nowhere(document, target)]


def test_every_source_file_that_a_document_names_exists():
    """A name may leave out the folders that the page is about."""
    named = {(place(document), name) for document in DOCUMENTS for name in SOURCE.findall(document.read_text())}
    assert named
    files = [path.relative_to(ROOT).parts for path in [*ROOT.glob("*.*"), *ROOT.glob("[!.]*/**/*.*")]]
    endings = {"/".join(parts[begin:]) for parts in files for begin in range(len(parts))}
    assert not [f"{document}: {name}" for document, name in sorted(named) if name not in endings]


def test_every_make_target_that_a_document_names_exists():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {
        (place(document), first or second)
        for document in DOCUMENTS
        for first, second in MAKE.findall(document.read_text())
    }
    assert named
    assert not [(document, target) for document, target in sorted(named) if target not in targets]


def test_every_command_that_a_document_shows_exists():
    listed = subprocess.run(
        [sys.executable, "-m", "shadowtree", "--help"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    commands = set(re.findall(r"^  ([a-z-]+) ", listed, re.M))
    shown = {
        (place(document), command)
        for document in DOCUMENTS
        for block in re.findall(r"```(?:console|sh|shell|bash)?\n(.*?)```", document.read_text(), re.S)
        for command, _ in COMMAND.findall(block)
    }
    assert shown
    assert not [(document, command) for document, command in sorted(shown) if command not in commands]


@pytest.mark.parametrize("shell", [["bash"], ["bash", "-O", "failglob"]], ids=["bash", "one that fails as zsh does"])
@pytest.mark.parametrize("left", ["", "-wal", ".mark"])
def test_the_files_of_a_database_are_moved_away_as_the_operators_are_told(shell, left, tmp_path):
    """After a clean stop there is no log, and before the first write no mark."""
    told = re.search(r"^\$ (mkdir broken .*)\n\$ (cp .*)$", (ROOT / "docs/operators.md").read_text(), re.M)
    files = {"names.db", "names.db.lock", f"names.db{left}"}
    for name in (*files, "copy.db"):
        (tmp_path / name).write_text(name)
    subprocess.run([*shell, "-c", f"{told[1]} && {told[2]}"], cwd=tmp_path, check=True)
    assert {path.name for path in (tmp_path / "broken").iterdir()} == files
    assert {path.name for path in tmp_path.iterdir()} == {"broken", "copy.db", "names.db"}
    assert (tmp_path / "names.db").read_text() == "copy.db"


def test_the_page_of_the_client_names_every_error():
    page = (ROOT / "docs/client.md").read_text()
    public = {name for name in dir(errors) if isinstance(getattr(errors, name), type) and hasattr(shadowtree, name)}
    assert len(public) > 15
    assert sorted(name for name in public if f"`{name}`" not in page and f"shadowtree.{name}`" not in page) == []


def words_of_the_programs():
    """Return all texts that the packages can print, with texts split over lines joined."""
    packages = ("delivery", "namegraph", "nameserver", "resolver", "shadowtree", "storage")
    source = "\n".join(path.read_text() for package in packages for path in (ROOT / package).rglob("*.py"))
    return re.sub(r'"\s*\n\s*f?"', "", source)


def test_what_the_page_for_trouble_quotes_is_what_the_programs_say():
    """Names of things stand in capitals there; between them are the words."""
    page = (ROOT / "docs/troubleshooting.md").read_text()
    quoting, _, _ = page.partition("| you want to |")
    quoted = [text for row in re.findall(r"^\|([^|]*)\|", quoting, re.M) for text in re.findall(r"`([^`]+)`", row)]
    assert len(quoted) > 15
    said = words_of_the_programs()
    pieces = [piece.strip() for text in quoted for piece in re.split(r"\b[A-Z]+\b", text)]
    assert not [piece for piece in pieces if piece not in said]
