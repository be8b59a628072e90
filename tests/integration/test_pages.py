"""Every block of these pages does what it shows, pasted as it stands."""

import pytest

from tests.pages import PageRun, blocks_of, processes_about

PAGES = ["README.md", "docs/cli.md", "docs/client.md", "docs/mail.md", "docs/messages.md", "docs/operators.md"]

NOT_RUN = {
    ("README.md", "it sets up an environment, and runs all tests"),
    ("docs/mail.md", "needs a Postfix; tests/integration/mailing/test_postfix.py starts one with the printed lines"),
    ("docs/operators.md", "the servers of the peers are not there; the same command is run in docs/cli.md"),
    ("docs/mail.md", "needs a Mailman; tests/unit/cli/test_mailman.py has one that answers as 3.3.10 does"),
    ("docs/mail.md", "needs a Mailman, whose answers it saves"),
    ("docs/mail.md", "it is what a note looks like"),
    ("docs/mail.md", "it makes a key of your domain"),
    ("docs/mail.md", "the key is yours"),
    ("docs/mail.md", "it installs what others use, and measures for minutes"),
    (
        "docs/operators.md",
        "needs Docker; tests/project/test_compose_file.py and test_dockerfile.py read what it starts",
    ),
    ("docs/operators.md", "needs Docker"),
    ("docs/operators.md", "the server is needed below; tests/unit/cli/test_repair.py runs it"),
    ("docs/operators.md", "a line of a log as text"),
    ("docs/operators.md", "a line of a log as JSON"),
}
"""The only ones that may stay unread: a page cannot take a block out of the test by itself."""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_shows_from_its_first_block_to_its_last_and_leaves_nothing_elsewhere(page, tmp_path):
    run = PageRun(tmp_path)
    try:
        for block in blocks_of(page):
            if block.why_not_run is None:
                run.run(block)
        run.end()
        assert not list(run.temporary.iterdir())
        assert not processes_about(run.temporary)
    finally:
        run.abandon()


def test_every_block_is_run_or_saved_or_is_one_of_those_that_cannot_be():
    found = [(page, block) for page in PAGES for block in blocks_of(page)]
    assert len(found) > 30
    assert not [(page, block.text) for page, block in found if not block.is_handled]
    not_run = [(page, block.why_not_run) for page, block in found if block.why_not_run is not None]
    assert len(not_run) == len(NOT_RUN)
    assert set(not_run) == NOT_RUN


@pytest.mark.parametrize("page", PAGES)
def test_the_notes_of_blocks_are_of_a_kind_that_is_understood(page):
    assert not [block.note for block in blocks_of(page) if block.note and not (block.file or block.why_not_run)]
