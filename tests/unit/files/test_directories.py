"""Exports of directories, LDIF and Export-Csv: groups nest, entries are named, and each bad line is told."""

import base64

import pytest

from shadowtree.client.files.directory_names import read_dn
from shadowtree.errors import BadFile
from shadowtree.updates import Arc
from tests.unit.files.test_graph_files import read_text

STAFF, LAB = "staff@ubc.example", "lab@ubc.example"
NESTED = [Arc(STAFF, LAB, "group"), Arc(STAFF, "ann@ubc.example", "process"), Arc(LAB, "bob@sfu.example", "process")]
LDIF = """version: 1

# groups
dn: cn=staff,ou=Groups,dc=ubc,dc=example
objectClass: top
objectClass: groupOfNames
cn: staff
member: CN=Lab, OU=Groups, DC=ubc, DC=example
member: uid=ann,ou=People,
 dc=ubc,dc=example

dn: cn=lab,ou=Groups,dc=ubc,dc=example
objectclass: groupOfUniqueNames
uniqueMember: uid=bob,dc=ubc,dc=example#'0101'B

dn: uid=bob,dc=ubc,dc=example
objectClass: inetOrgPerson
mail: bob@sfu.example
"""


def read(tmp_path, text, file_format="ldif", **options):
    return read_text(tmp_path, text, name="export", file_format=file_format, **{"skip_bad": False, **options})


def encoded(text):
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("change", [str, lambda text: text.replace("\n", "\r\n")], ids=["lf", "crlf"])
def test_groups_of_ldif_nest_and_people_are_named_by_their_mail_or_their_name(tmp_path, change):
    assert read(tmp_path, change(LDIF))[0] == NESTED


def test_base64_posix_groups_and_groups_without_members_are_read(tmp_path):
    text = f"""dn:: {encoded("cn=büro,dc=ubc,dc=example")}
objectClass: posixGroup
memberUid: ann
memberUid: bob

dn: uid=bob,dc=ubc,dc=example
uid: bob
mail: bob@sfu.example
jpegPhoto:: /9j/4AAQ

dn: cn=empty,dc=ubc,dc=example
objectClass: group

search: 2
result: 0 Success
"""
    arcs, groups, _ = read(tmp_path, text)
    assert arcs == [
        Arc("büro@ubc.example", "ann@ubc.example", "process"),
        Arc("büro@ubc.example", "bob@sfu.example", "process"),
    ]
    assert "empty@ubc.example" in groups


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("dn: cn=a,dc=x\nobjectClass: group\nmember: nonsense\n", 3, "'nonsense' is not a distinguished name"),
        ("dn: cn=a,dc=x\nobjectClass: group\nmember: cn=b,o=Corp\n", 3, "has no domain"),
        ("dn: cn=a,dc=x\nobjectClass: group\nmember: cn=A,dc=x\n", 3, "cannot be a member of itself"),
        ("dn: cn=a,dc=x\nchangetype: modify\nadd: member\n", 1, "a record of a change"),
        ("\ncn: a\nobjectClass: group\n", 2, "there is no dn:"),
        ("dn: cn=a,dc=x\nobjectClass: group\nmember:: ***\n", 3, "the value of member is not base64"),
        ("dn: cn=a,dc=x\nobjectClass: group\nmember:: \u00e9\n", 3, "the value of member is not base64"),
        ("dn: cn=a,dc=x\nobjectClass: group\nmember:< file:///etc/passwd\n", 3, "is in another file"),
        ("a\tb\tgroup\n", 1, "this is not LDIF"),
        ("dn: cn=a,dc=x\nobjectClass: group\nmember;range=0-1: cn=b,dc=x\n", 3, "a part of its values"),
        ("dn: cn=a,dc=x\nobjectClass: group\n\ndn: CN=A, dc=x\ncn: a\n", 4, "line 1 has this entry already"),
        ("dn: cn=a,ou=p,dc=x\nobjectClass: group\n\ndn: cn=a,dc=x\nobjectClass: group\n", 4, "a group of the name a@x"),
    ],
)
def test_a_line_of_ldif_that_gives_no_arc_is_told(tmp_path, text, line, why):
    with pytest.raises(BadFile) as caught:
        read(tmp_path, text)
    assert caught.value.facts["line"] == str(line)
    assert why in str(caught.value)
    ((skipped, _),) = read(tmp_path, text, skip_bad=True)[2]
    assert skipped == line


def test_a_distinguished_name_is_the_same_however_it_is_written():
    one = read_dn("CN=Lee\\, Ann+uid=1,OU=People,DC=ubc,DC=example")
    assert one.key == read_dn("cn=lee\\2C  ann+uid=1, ou=people ,dc=UBC,dc=example").key
    assert (one.first, one.domain) == ("Lee, Ann+uid=1", "ubc.example")
    assert read_dn("cn=b\\C3\\BCro,dc=x").first == "büro"


@pytest.mark.parametrize("first", ["", "#TYPE Selected.System.Management.Automation.PSCustomObject\n"])
def test_a_table_of_export_csv_nests_groups_by_class_or_by_their_own_lines(tmp_path, first):
    text = (
        first
        + """"GroupName","GroupDN","MemberName","MemberDN","MemberObjectClass","MemberMail"
"staff","CN=staff,DC=ubc,DC=example","lab","CN=lab,DC=ubc,DC=example","group",""
"staff","CN=staff,DC=ubc,DC=example","ann","CN=Ann Lee,DC=ubc,DC=example","user",""
"lab","CN=lab,DC=ubc,DC=example","Bob","CN=Bob,DC=ubc,DC=example","user","bob@sfu.example"
"""
    )
    assert read(tmp_path, text, "csv")[0] == NESTED
    without_class = '"GroupDN";"MemberDN"\n' + "".join(
        f'"{group}";"{member}"\n'
        for group, member in (
            ("CN=staff,DC=ubc,DC=example", "cn=LAB,dc=ubc,dc=example"),
            ("CN=lab,DC=ubc,DC=example", "CN=ann,DC=ubc,DC=example"),
        )
    )
    kinds = {arc.kind for arc in read(tmp_path, without_class.replace("cn=LAB", "cn=lab"), "csv")[0]}
    assert kinds == {"group", "process"}


@pytest.mark.parametrize(
    ("columns", "name"),
    [("GroupName,MemberSamAccountName", "lab,lab-2000"), ("GroupMail,MemberName", f"{LAB},Lab Team")],
)
def test_a_nested_group_of_export_csv_has_the_name_of_its_own_lines(tmp_path, columns, name):
    own, as_member = name.split(",")
    staff = STAFF if "Mail" in columns else "staff"
    text = (
        f"GroupDN,MemberDN,MemberObjectClass,{columns}\n"
        f'"cn=staff,dc=ubc,dc=example","cn=lab,dc=ubc,dc=example",group,{staff},{as_member}\n'
        f'"cn=Lab,dc=ubc,dc=example","cn=ann,dc=ubc,dc=example",user,{own},ann\n'
    )
    assert read(tmp_path, text, "csv")[0] == [Arc(STAFF, LAB, "group"), Arc(LAB, "ann@ubc.example", "process")]


def test_a_group_of_export_csv_without_a_domain_is_told(tmp_path):
    with pytest.raises(BadFile, match="'staff' has no domain"):
        read(tmp_path, '"GroupName","MemberName"\n"staff","ann@ubc.example"\n', "csv")
