"""Docstrings and comments are plain English, classes have names of their own, and citations lead to headings."""

import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.project.synchronous_client import MODULES

ROOT = Path(__file__).parents[2]
GENERATED = ("shadowtree/v1/", *(f"shadowtree/client/synchronous/{name}" for name in MODULES))
FRAGMENTS = frozenset(("what", "whether", "of", "where", "who", "so", "which", "that", "whoever"))
"""First words of sentences whose subject comes late, or not at all."""
FRAGMENTS_PER_CENT_LIMIT = 3
NO_NOUN = re.compile(
    r"(What|Whatever|Who|Whom|Whose|Whoever|Of|By|Where|Wherever|Nothing|Nobody|As|To|So|That|Until|While|With|Without"
    r"|There|Neither|Nor|Such|Here|Then|Else|Likewise)\b"
)
NO_NOUN_PER_CENT_LIMIT = 3
CLASS_NAMES_USED_TWICE_LIMIT = 20
CITATION = re.compile(r"docs/[\w-]+\.md")


def sources(*folders):
    """Return the Python files of folders, or of all but tests and benchmarks, by name."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *(folders or ("*.py",))]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    is_left_out = GENERATED if folders else (*GENERATED, "tests/", "benchmarks/")
    return {
        name: (ROOT / name).read_text()
        for name in names
        if name.endswith(".py") and not name.startswith(is_left_out) and (ROOT / name).exists()
    }


@cache
def docstrings(text):
    """Return all texts that stand alone in a module, class or function."""
    found = []
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else []:
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                found.append(child.value.value)
    return found


@cache
def comments(text):
    """Return the comments of a file; lines that follow one another are one."""
    last, found = -2, []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# type:", "#!")):
            words = token.string.removeprefix("#").strip()
            if token.start[0] == last + 1 and token.line.lstrip().startswith("#"):
                found[-1] += f" {words}"
            else:
                found.append(words)
            last = token.start[0]
    return found


def sentences(text):
    """Cut a text into sentences. Pictures, tables and lists, which are indented or marked, are left out."""
    plain = "\n".join(
        line for line in text.split("\n") if not re.match(r"( {8,}| {4,}\S.* {3,}|\s*[|*-] |\s*\d\. )", line)
    )
    return [each for each in re.split(r"(?<=[.!?])\s+", re.sub(r"\s+", " ", plain).strip()) if each]


def test_few_sentences_begin_with_a_word_that_is_no_subject():
    texts = [each for text in sources().values() for each in (*docstrings(text), *comments(text))]
    firsts = Counter(re.split(r"\W", each.lower(), maxsplit=1)[0] for text in texts for each in sentences(text))
    share = 100 * sum(firsts[word] for word in FRAGMENTS) / firsts.total()
    assert firsts.total() > 10_000, "the sentences are not found any more"
    assert share < FRAGMENTS_PER_CENT_LIMIT, {word: firsts[word] for word in FRAGMENTS}


def test_few_docstrings_begin_without_a_noun():
    every = [(name, each) for name, text in sources().items() for each in docstrings(text)]
    without = [f"{name}: {each[:80]}" for name, each in every if NO_NOUN.match(each)]
    assert 100 * len(without) / len(every) < NO_NOUN_PER_CENT_LIMIT, without


def test_few_names_of_classes_are_used_twice():
    """Twins of the two clients count, too."""
    places = {}
    for name, text in sources().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    twice = {name: files for name, files in places.items() if len(files) > 1}
    assert len(places) > 1_000, "the classes are not found any more"
    assert len(twice) <= CLASS_NAMES_USED_TWICE_LIMIT, twice


@pytest.mark.parametrize("folder", ["code", "tests"])
def test_pages_that_docstrings_and_comments_cite_are_there(folder):
    found = sources() if folder == "code" else sources("tests", "benchmarks")
    cited = {(name, page) for name, text in found.items() for page in CITATION.findall(text)}
    assert cited or folder == "tests"
    lost = sorted((name, page) for name, page in cited if not (ROOT / page).exists())
    assert not lost


def test_docstrings_cite_no_document_that_is_not_here():
    """A citation of a page that nobody has leads nowhere."""
    pattern = re.compile(r"(?<![\w/-])([a-z][\w-]*\.md)\b")
    here = {path.name for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]}
    lost = [
        f"{name}: {page}"
        for name, text in sources().items()
        for each in (*docstrings(text), *comments(text))
        for page in pattern.findall(each)
        if page not in here
    ]
    assert not lost
