# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Event lines that show values of C, C++, Rust and Go as what they are in the program's language."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-types-")

CXX = r"""
#include <memory>
#include <string>
#include <vector>
struct item { int id; std::string name; std::vector<int> v; };
struct shop {
	std::unique_ptr<item> best;
	std::shared_ptr<item> other;
	__attribute__((noinline)) int add(const std::string &n, std::vector<long> &v)
	{
		asm volatile("" ::"r"(this), "r"(&n), "r"(&v) : "memory");
		return (int)n.size();
	}
};
int main()
{
	shop s;
	std::vector<long> v{4, 5, 6};
	s.best.reset(new item{7, "best", {1, 2}});
	s.other = std::make_shared<item>(item{8, std::string(300, 'x'), {}});
	return s.add("a longer text, which is not inside", v) + s.add("", v) != 34;
}
"""
DUMPED = r"""
struct msg { const unsigned char *data; unsigned long n; };
__attribute__((noipa)) int handle(const unsigned char *buf, int len, struct msg *m, const void *raw)
{
	char local[6] = "abcde";
	asm volatile("" ::"r"(local) : "memory");
	return len;
}
int main(void)
{
	unsigned char b[6000];
	struct msg m = {b + 3, 5};
	for (int i = 0; i < 6000; i++)
		b[i] = i;
	handle(b, 4, &m, b);
	handle(b, -1, &m, b);
	handle(b, 6000, &m, b);
	handle((void *)8, 2, &m, b);
	return 0;
}
"""


@test
def dumps():
    """$buf[$len]:x8 and $buf:x8[16] are bytes of memory, as many as are wanted; a number as an index is one"""
    prog = compiled(DIR, "dumped", DUMPED, "-O0", "-g")
    b = bytes(i & 255 for i in range(6000)).hex()
    got = args_of("p handle $buf[$len]:x8", prog)
    assert [g["buf[len]"] for g in got[:2]] == [b[:8], ""], got
    assert b.startswith(got[2]["buf[len]"]) and 2000 < len(got[2]["buf[len]"]) < 8200, got
    assert got[3] == {"buf[len]": None}, got
    out = dprobes("trace", "p handle $buf[$len]:x8", "--", prog, check=0).stdout
    assert out.count("(shortened)") == 1, out
    got = args_of("p handle d=$m->data[$m->n]:x8 $raw[$len]:x8 $raw:x8[3] i=$buf[3]:x8 h=($raw+1)[$len-2]:x8 "
                  "if $len == 4", prog)
    assert got == [{"d": b[6:16], "raw[len]": b[:8], "raw": b[:6], "i": 3, "h": b[2:6]}], got
    got = args_of("p handle n=$arg2:s32 b=$arg1[n]:x8 r=%di:x8[%si] if n == 4", prog)
    assert got == [{"n": 4, "b": b[:8], "r": b[:8]}], got
    for form in "x=$arg1[3]:x8", "x=%di[3]:x8", "x=$arg1:x8[3]":  # words of the machine have no elements
        assert args_of("p handle %s if $arg2 == 4" % form, prog) == [{"x": b[:6]}], form
    assert args_of("r handle $buf[$retval]:x8 if $retval == 4", prog) == [{"buf[retval]": b[:8]}]
    for line, text in (("p handle $len[$len]:x8", "int is not a pointer or an array"),
                       ("p handle $buf[$m]:x8", "is not a length"), ("p handle $buf[$len]:x9", "did you mean x8"),
                       ("p handle $buf:x8[16", "E-DPCC-"), ("p handle $buf[$len:x8", "this [ has no ]"),
                       ("p handle b=$buf[$len]:x8 if b", "there is no variable 'b'")):
        err = dprobes("trace", line, "--", prog, check=1).stderr
        assert text in err, err


RUST = """
#[inline(never)]
fn add(name: &str, s: &String) -> usize {
    let n = name.len();
    hide(n + s.len())
}
fn main() {
    let s = String::from("owned text");
    add(&s[2..7], &s);
}
""" + RUST_HIDE
RUST_ENUMS = """
#[derive(Clone, Copy)]
pub enum Shape { Empty, Circle(f64), Rect { w: u32, h: u32 }, Pair(u8, i16) }
#[repr(i8)]
pub enum Signed { Minus(u8) = -3, Plus = 4 }
pub enum One { Only(u32) }
pub struct Holder { id: u32, next: Option<Box<Holder>>, shape: Shape }
type Nested = Option<Option<bool>>;
#[inline(never)]
fn add(a: Option<u32>, b: Option<&str>, c: &Option<String>, d: &Shape, e: Result<u64, ()>, f: Nested, g: &Holder,
       h: Signed, i: One, j: Option<u128>, k: Option<std::num::NonZeroU128>, l: std::cmp::Ordering) {
    hide((&a, &b, &c, &d, &e, &f));
    hide((&g, &h, &i, &j, &k, &l));
}
fn main() {
    let h = Holder { id: 1, next: None, shape: Shape::Circle(2.5) };
    let g = Holder { id: 2, next: Some(Box::new(Holder { id: 3, next: None, shape: Shape::Empty })),
                     shape: Shape::Pair(1, -2) };
    add(Some(5), Some("abc"), &Some(String::from("owned")), &Shape::Rect { w: 3, h: 4 }, Ok(9), Some(Some(true)), &h,
        Signed::Minus(7), One::Only(8), Some(1), None, std::cmp::Ordering::Less);
    add(None, None, &None, &Shape::Empty, Err(()), Some(None), &g, Signed::Plus, One::Only(9), None,
        std::num::NonZeroU128::new(5), std::cmp::Ordering::Greater);
}
""" + RUST_HIDE


def rust_version():
    need("rustc")
    told = subprocess.run(["rustc", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return tuple(map(int, told.split()[1].split(".")[:2]))


@test
def enums_of_rust():
    """a Rust enum is shown by the name of its variant, with what that has; also where no number tells which it is"""
    source, minus = RUST_ENUMS, {"Minus": 7}
    if rust_version() < (1, 66):  # where a variant with a value has no number of one's choice
        source, minus = source.replace("Minus(u8)", "Minus").replace("Minus(7)", "Minus"), "Minus"
    prog = compiled(DIR, "enums_rust", source, "-g", "-Awarnings", compiler="rustc")
    line = "p %s:12 $a $b *$c *$d $e $f *$g $h $i $j $k $l" % os.path.basename(prog + ".c")
    first, second = args_of(line, prog)
    assert first.pop("b")["Some"]["length"] == 3 and "vec" in first.pop("*c")["Some"], first
    assert first.pop("b.Some") == "abc" and first.pop("c->Some") == "owned", first
    assert first == {"a": {"Some": 5}, "*d": {"Rect": {"w": 3, "h": 4}}, "e": {"Ok": 9}, "f": {"Some": {"Some": True}},
                     "*g": {"id": 1, "next": "None", "shape": {"Circle": 2.5}}, "h": minus, "i": {"Only": 8},
                     "j": {"Some": 1}, "k": "None", "l": "Less"}, first
    assert second["*g"].pop("next")["Some"] > 4096 and "5" in str(second.pop("k")["Some"]), second
    assert second == {"a": "None", "b": "None", "*c": "None", "*d": "Empty", "e": "Err", "f": {"Some": "None"},
                      "*g": {"id": 2, "shape": {"Pair": {"__0": 1, "__1": -2}}}, "h": "Plus", "i": {"Only": 9},
                      "j": "None", "l": "Greater"}, second
    text = dprobes("trace", line, "--", prog, check=0).stdout
    assert " a={Some = 5} " in text and " a=None b=None " in text, text


GO = """package main

type order struct{ Name string }

//go:noinline
func add(o *order, label string) int { return len(o.Name) + len(label) }

func main() { println(add(&order{"anvil"}, "retail sale"[:6])) }
"""


def go_program(name, source):
    need("go")
    prog = os.path.join(DIR, name)
    with open(prog + ".go", "w") as f:
        f.write(source)
    subprocess.run(["go", "build", "-o", prog, prog + ".go"], check=True, env={**os.environ, "HOME": DIR})
    return prog


def args_of(line, prog):
    return [e["args"] for e in json_lines(dprobes("trace", "--json", line, "--", prog, check=0).stdout) if "args" in e]


@test
def texts_of_cxx():
    """std::string is a text, .size of it and of a vector, -> through pointers that own"""
    prog = compiled(DIR, "texts", CXX, "-O0", "-g", compiler="g++")
    got = args_of("p shop::add $n a=$n.size() b=$v.size c=$this->best->name d=$this->best->v.size() e=$this->other->id "
                  "f=$this->other->name", prog)
    best = {"b": 3, "c": "best", "d": 2, "e": 8}
    texts = ["a longer text, which is not inside", ""]
    for g, text in zip(got, texts):
        assert g.pop("f") == "x" * 256, got  # and no more
        assert g == {"n": text, "a": len(text), **best}, got
    assert len(got) == 2, got


@test
def texts_of_rust():
    """&str and String are texts, with their length and no longer"""
    prog = compiled(DIR, "texts_rust", RUST, "-g", compiler="rustc")
    assert args_of("p %s:4 $name *$s n=$name.size" % os.path.basename(prog + ".c"), prog) == [
        {"name": "ned t", "*s": "owned text", "n": 5}]


INSIDE = """struct Inner { label: &'static str, n: u32 }
struct Item { id: u32, name: String, note: Option<String>, other: Option<&'static str>, inner: Inner }
enum Msg { Text(String), Tagged { tag: &'static str, n: u32 }, Empty }
#[inline(never)]
fn show(item: &Item, m: &Msg, o: Option<String>, v: Inner) -> u32 {
    hide((item, m, &o, &v)); // here
    item.id
}
fn item(id: u32, note: Option<String>) -> Item {
    Item { id, name: "anvil".into(), note, other: Some("maybe"), inner: Inner { label: "in", n: 3 } }
}
fn main() {
    show(&item(1, Some("first".into())), &Msg::Text("hello".into()), Some("opt".into()), Inner { label: "v", n: 1 });
    show(&item(2, None), &Msg::Tagged { tag: "t", n: 4 }, None, Inner { label: "", n: 2 });
    show(&item(3, None), &Msg::Empty, None, Inner { label: "w", n: 3 });
}
""" + RUST_HIDE


@test
def texts_inside():
    """texts in structures and in the variant that is there are fields behind it, by their path"""
    prog = compiled(DIR, "texts_inside", INSIDE, "-g", "-Awarnings", compiler="rustc")
    line = [i for i, s in enumerate(INSIDE.splitlines(), 1) if "// here" in s][0]
    got = args_of("p %s:%d *$item *$m $o $v end=$item->id" % (os.path.basename(prog + ".c"), line), prog)
    found = [{k: v for k, v in g.items() if isinstance(v, str)} for g in got]
    item = {"item->name": "anvil", "item->other.Some": "maybe", "item->inner.label": "in"}
    assert found == [{**item, "item->note.Some": "first", "m->Text": "hello", "o.Some": "opt", "v.label": "v"},
                     {**item, "m->Tagged.tag": "t", "o": "None", "v.label": ""},
                     {**item, "*m": "Empty", "o": "None", "v.label": "w"}], found
    assert [g["end"] for g in got] == [1, 2, 3] and got[1]["*m"]["Tagged"]["n"] == 4, got


@test
def texts_of_go():
    """strings of Go are texts, with their length and no longer"""
    prog = go_program("texts-go", GO)
    assert args_of("p main.add $o->Name $label", prog) == [{"o->Name": "anvil", "label": "retail"}]


LONG = "very" * 40 + "long"
GO_INTERFACES = """package main

import "unsafe"

type shape interface{ area() int }
type square struct{ a int }
type circle struct{ r int }
type %s struct{ n int }
type fault struct{}
type holder struct{ err error }

func (s square) area() int   { return s.a * s.a }
func (c *circle) area() int  { return 3 * c.r * c.r }
func (f fault) Error() string { return "fault" }

var made [16]uint64

//go:noinline
func add(s shape, any interface{}, err error, h *holder) bool { return s != nil && any != nil && err != nil }

func main() {
	var any interface{} = 1
	var none *circle
	add(square{3}, any, fault{}, &holder{})
	add(&circle{2}, "text", nil, &holder{fault{}})
	add(none, map[string][]*circle{}, nil, &holder{})
	add(nil, %s{1}, &fault{}, &holder{})
	*(*unsafe.Pointer)(unsafe.Pointer(&any)) = unsafe.Pointer(&made)
	add(nil, any, nil, &holder{})
}
""" % (LONG, LONG)


@test
def interfaces_of_go():
    """an interface of Go is shown by its type's name, as %T of Go has it; its two words by their names"""
    prog = go_program("interfaces-go", GO_INTERFACES)
    got = args_of("p main.add $s $any $err h=$h->err", prog)
    assert [tuple(g.values()) for g in got] == [
        ("main.square", "int", "main.fault", "nil"), ("*main.circle", "string", "nil", "main.fault"),
        ("*main.circle", "map[string][]*main.circle", "nil", "nil"), ("nil", "main." + LONG, "*main.fault", "nil"),
        ("nil", "unknown", "nil", "nil")], got
    got = args_of("p main.add $args d=$s.data t=$any._type", prog)
    assert got[0]["s"] == "main.square" and got[2]["d"] == 0 and got[2]["t"] > 4096, got
    subprocess.run(["objcopy", "-N", "runtime.types", prog, prog + "-less"], check=True)  # it cannot be checked
    got = args_of("p main.add $s $any", prog + "-less")
    assert sorted(got[0]["s"]) == ["data", "tab"] and got[4]["s"]["tab"] == 0 and got[0]["any"]["_type"] > 4096, got


GO_RESULTS = """package main

type pair struct { a int8; b float32; c string }
type fault struct{}

func (fault) Error() string { return "fault" }

var calls int

//go:noinline
func half(n int) float64 { return float64(n) / 2 }
//go:noinline
func small(n int) (float32, int) { return float32(n) / 4, 7 }
//go:noinline
func text(n int) (string, error) { return "some text"[:n], nil }
//go:noinline
func parts(n int) pair { return pair{int8(-n), 1.5, "c"} }
//go:noinline
func few(n int) int8 { return int8(-n) }
//go:noinline
func fails(n int) (err error) { if n > 3 { return fault{} }; return nil }
//go:noinline
func three(n int) [3]int { return [3]int{n, n, n} }
//go:noinline
func both(n int) complex128 { return complex(1, float64(n)) }
//go:noinline
func list(n int) []int { return make([]int, n) }
//go:noinline
func none(n int) { calls += n }
//go:noinline
func whole(n int) int { return -n }

func main() {
	a, b := text(4)
	println(half(5), parts(5).c, few(5), fails(4), fails(2), three(1)[0], both(2), len(list(3)), a, b, whole(6))
	println(small(5))
	none(1)
}
"""


@test
def go_results():
    """$retval of a Go function by its type, from the registers in which Go returns it; never another one"""
    prog = go_program("goresults", GO_RESULTS)
    for name, want in (("half", [2.5]), ("small", [1.25]), ("text", ["some"]), ("few", [-5]), ("fails", ["main.fault",
                       "nil"]), ("both", [[1.0, 2.0]]), ("parts", [{"a": -5, "b": 1.5}])):
        got = [a["retval"] for a in args_of("r main.%s $retval" % name, prog)]
        if name == "parts":
            assert got[0].pop("c")["len"] == 1, got
        assert got == want or name == "both" and len(got) == 1, (name, got)
    got = args_of("r main.list $retval.len $retval.cap $n", prog)
    assert [tuple(g.values()) for g in got] == [(3, 3, 3)], got
    assert args_of("r main.parts $retval.c $retval.b if $retval.a == -5", prog) == [{"retval.c": "c", "retval.b": 1.5}]
    (got,) = args_of("r main.whole $retval", prog)
    assert list(got.values()) == [2 ** 64 - 6], got  # as a plain line shows it
    for name, said in (("three", "on the stack"), ("none", "returns nothing")):
        err = dprobes("trace", "r main.%s $retval" % name, "--", prog, check=1).stderr
        assert "E-DPCC-TYPE" in err and said in err, err
    out = os.path.join(DIR, "go.dpt")
    dprobes("record", "-o", out, "r main.half $retval", "--", prog, check=0)
    assert "retval=2.5" in dprobes("report", out, check=0).stdout
    err = dprobes("trace", "--pages", "r main.half $retval", "--", prog, check=1).stderr
    assert "E-EVENT-RETVAL" in err and "main.half" in err, err
    subprocess.run(["objcopy", "-g", prog, prog + "-bare"], check=True)
    for line in "r main.half $retval", "r main.half $retval $duration":
        err = dprobes("trace", line, "--", prog + "-bare", check=1).stderr
        assert ("E-EVENT-VAR" in err or "E-EVENT-RETVAL" in err) and "%ax" in err, err


@test
def last_parts():
    """a function's name without its namespaces, class or package is met by the whole name"""
    source = "namespace a { struct b { int f(int n); }; __attribute__((noinline)) int b::f(int n) { return n; } }\n" \
             "int main() { return a::b().f(0); }\n"
    cxx = compiled(DIR, "last-parts", source, "-O1", "-g", compiler="g++")
    for prog, line, meant in ((cxx, "p f $n", "a::b::f"), (go_program("goparts", GO), "p add $label", "main.add")):
        err = dprobes("trace", line, "--", prog).stderr
        assert "E-SYM-NONE" in err and f"did you mean {meant}" in err, err


run()
