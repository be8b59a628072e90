"""Every block of the documents does what it shows, pasted as it stands."""

import pytest

from tests.pages import ROOT, PageRun, blocks_of, processes_about
from tests.reader_environment import ReaderEnvironment, extras_named

PAGES = [
    "CONTRIBUTING.md",
    "README.md",
    "docs/audit.md",
    "docs/cli.md",
    "docs/client.md",
    "docs/mail.md",
    "docs/messages.md",
    "docs/operators.md",
    "docs/testing.md",
]
BY_OTHER_TESTS = {
    "docs/grpc.md": "tests/integration/other_languages/test_page_commands.py",
    "docs/three-organisations.md": "tests/integration/test_three_organisations_page.py",
}
IN_THE_SOURCES = {"docs/audit.md": "spark_graph_jobs", "docs/testing.md": "tests"}
"""Pages whose commands are for the folder of the sources, and what of it they read."""

FOR_DEVELOPERS = {"CONTRIBUTING.md", "docs/testing.md"}
"""Pages whose commands need what `make test` installs, as they say."""

NOT_RUN = {
    ("docs/operators.md", "as root, into /opt and /etc"),
    ("CONTRIBUTING.md", "they run for minutes"),
    ("README.md", "it sets up an environment, and runs all tests"),
    ("docs/audit.md", "it installs Spark; the command is run in docs/cli.md"),
    ("docs/audit.md", "it needs snapshots; tests/integration/audit/test_audit_program.py runs it"),
    ("docs/audit.md", "a finding"),
    ("docs/audit.md", "a line of the audit"),
    ("docs/audit.md", "needs a cluster of Spark's own"),
    ("docs/audit.md", "needs a cluster of YARN"),
    ("docs/audit.md", "needs a cluster of Kubernetes"),
    ("docs/testing.md", "they run for minutes"),
    ("docs/mail.md", "needs a Postfix; tests/integration/mailing/test_postfix.py starts one with the printed lines"),
    ("docs/operators.md", "the servers of the peers are not there; the same command is run in docs/cli.md"),
    ("docs/mail.md", "needs a Mailman; tests/unit/cli/test_mailman.py has one that answers as 3.3.10 does"),
    ("docs/mail.md", "needs a Mailman, whose answers it saves"),
    ("docs/mail.md", "it is what a note looks like"),
    ("docs/mail.md", "it makes a key of your domain"),
    ("docs/mail.md", "the key is yours"),
    ("docs/mail.md", "it installs what others use, and measures for minutes"),
    ("docs/operators.md", "needs Docker; `make containers` runs it"),
    ("docs/operators.md", "needs Docker; `make containers` runs it, too"),
    ("docs/operators.md", "the server is needed below; tests/unit/cli/test_repair.py runs it"),
    ("docs/operators.md", "a line of the configuration, of databases that are not there"),
    ("docs/operators.md", "a line of a log as text"),
    ("docs/cli.md", "it needs a server and some days"),
    ("docs/operators.md", "a line of a log as JSON"),
}
"""The only ones that may stay unread: a page cannot take a block out of the test by itself."""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_shows_from_its_first_block_to_its_last_and_leaves_nothing_elsewhere(page, tmp_path):
    if page in IN_THE_SOURCES:
        (tmp_path / IN_THE_SOURCES[page]).symlink_to(ROOT / IN_THE_SOURCES[page])
    run = PageRun(tmp_path, for_developers=page in FOR_DEVELOPERS)
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


def test_no_document_with_commands_or_programs_is_left_out():
    documents = [str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]]
    with_blocks = {page for page in documents if any(block.is_command for block in blocks_of(page))}
    assert with_blocks == {*PAGES, *BY_OTHER_TESTS}
    for test in BY_OTHER_TESTS.values():
        assert (ROOT / test).exists()


@pytest.mark.parametrize("page", PAGES)
def test_the_notes_of_blocks_are_of_a_kind_that_is_understood(page):
    assert not [block.note for block in blocks_of(page) if block.note and not (block.file or block.why_not_run)]


def test_the_environment_of_a_reader_has_what_was_installed_and_nothing_else(tmp_path):
    environment = ReaderEnvironment(tmp_path / "environment")
    assert environment.has("shadowtree.cli.main")
    extras = {
        "metrics": "prometheus_client",
        "traces": "opentelemetry.sdk",
        "postgres": "psycopg",
        "mail": "flufl.bounce",
    }
    assert not [module for module in (*extras.values(), "pytest", "psutil") if environment.has(module)]
    for extra, module in extras.items():
        environment.install(extra)
        assert environment.has(module), extra
    assert not environment.has("pytest")


def test_an_extra_is_named_by_the_command_that_installs_it():
    assert extras_named("run `pip install '.[metrics]'`, and `pip install 'DIR[mail,postgres]'`") == {
        "metrics",
        "mail",
        "postgres",
    }
    assert extras_named("the extra `metrics`") == set()
