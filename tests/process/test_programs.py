# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Well-known programs under probes: results equal to an unprobed run, nothing left behind."""
import hashlib
import http.client
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(__file__))
from real import *  # noqa: E402,F403


def both(modules):
    """Entries and exits of all functions of these modules."""
    return sum((["p %s:* %s" % (m, NEVER), "r %s:* %s" % (m, NEVER_R)] for m in modules), [])


def same(modules, argv, hits=1000, extra=(), **kw):
    """Run argv without and with probes: output and status are the same. Returns the probed run's summary."""
    plain = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                           text=True, **kw)
    with tempfile.TemporaryDirectory() as d:
        lines = event_file(d, both(modules) + list(extra))
        r = dprobes("trace", "-o", os.path.join(d, "trace.txt"), "-f", lines, "--", *argv, timeout=120, **kw)
    assert r.stdout == plain.stdout, (plain.stdout[-1000:], r.stdout[-1000:], r.stderr[-3000:])
    m = re.search(r" ended with status (\d+)$| was ended by signal (\d+)", r.stderr, re.M)
    status = 0 if not m else int(m.group(1)) if m.group(1) else -int(m.group(2))
    assert status == plain.returncode, (status, plain.returncode, r.stderr[-3000:])
    assert r.returncode == (status if status >= 0 else 128 - status), (status, r.returncode)
    rows = rows_of(r.stderr)
    total = rows.get("total") or list(rows.values())[0]
    assert total["hits"] >= hits and not total["lost"], r.stderr[-3000:]
    print("# figure: %s: %d probes, %d hits, %d missed, same output and status"
          % (os.path.basename(argv[0]), probes_of(r.stderr), total["hits"], total["missed"]))
    return rows


@test
def nginx():
    """nginx: master and worker, 300 requests on a unix socket, replies right"""
    exe, = need("/usr/sbin/nginx")
    d = tempfile.mkdtemp(prefix="dp-nginx-")
    os.chmod(d, 0o755)
    data = bytes(i * 31 & 255 for i in range(300000))
    with open(os.path.join(d, "big.bin"), "wb") as f:
        f.write(data)
    with open(os.path.join(d, "conf"), "w") as f:
        f.write("daemon off; master_process on; worker_processes 1; pid %s/pid; error_log %s/err; events {}\n"
                "http { access_log %s/log; gzip on; gzip_types *; client_body_temp_path %s/b; proxy_temp_path %s/p;\n"
                "fastcgi_temp_path %s/f; uwsgi_temp_path %s/u; scgi_temp_path %s/c;\n"
                "server { listen unix:%s/s; root %s; location /hello { return 200 \"hello $arg_x\"; } } }\n"
                % ((d,) * 10))
    p = start([exe, "-p", d, "-c", os.path.join(d, "conf"), "-e", os.path.join(d, "err")])
    wait_for(lambda: os.path.exists(os.path.join(d, "s")), what="nginx")
    worker = wait_for(lambda: children_of(p.pid), what="its worker")[0]

    class Worker:
        pid = worker

        @staticmethod
        def poll():
            return None if os.path.exists("/proc/%s" % worker) and p.poll() is None else 1

    def get(path, **headers):
        c = http.client.HTTPConnection("localhost")
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.settimeout(20)
        c.sock.connect(os.path.join(d, "s"))
        c.request("GET", path, headers=headers)
        r = c.getresponse()
        body = r.read()
        c.close()
        return r.status, body

    def check(n):
        import zlib
        for i in range(n):
            assert get("/hello?x=%d" % i) == (200, b"hello %d" % i)
            assert get("/none") [0] == 404
            if i % 10 == 0:
                assert get("/big.bin") == (200, data)
                status, body = get("/big.bin", **{"Accept-Encoding": "gzip"})
                assert status == 200 and zlib.decompress(body, 31) == data

    check(1)
    for who in (Worker, p):
        t = trace_start("-o", "/dev/null", "-p", who.pid, *both(["nginx", "libc", "libz"]))
        armed(t, who)
        check(50)
        err = finish(t, who)
        forget(t)
        if who is Worker:
            total = rows_of(err)["total"]
            assert total["hits"] > 10000 and not total["missed"], total
            print("# figure: nginx worker, %d probes, %d hits" % (probes_of(err), total["hits"]))
    check(2)
    assert stop(p) == 0
    with open(os.path.join(d, "err")) as f:
        assert "signal" not in f.read().replace("signal 15", "").replace("signal process", "")
    shutil.rmtree(d, ignore_errors=True)


@test
def bash():
    """bash: loops, functions, subshells, pipes, traps, its status"""
    exe, = need("/bin/bash")
    same(["bash", "libc"], [exe, "-c", r"""
        f() { local n=$1; if ((n < 2)); then echo $n; else echo $(( $(f $((n-1))) + $(f $((n-2))) )); fi; }
        f 8
        for i in {1..3000}; do s=$((s + i * i)); done; echo $s
        declare -A m; for w in one two three two one two; do ((m[$w]++)); done; echo ${m[one]} ${m[two]} ${m[three]}
        (exit 5); echo $?
        seq 1 2000 | while read -r x; do [[ $x =~ ^[0-9]*7$ ]] && echo $x; done | sort -rn | head -3
        trap 'echo usr1' USR1; kill -USR1 $$; echo ${PATH//[^:]/} | wc -l
        x=abcdefghij; for i in {1..200}; do x=${x#?}${x%"${x#?}"}; done; echo $x; printf '%05d|%-6s|%x\n' 42 ab 255
        sleep 0.1 & wait $!; exit 3"""], env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})


@test
def sqlite():
    """sqlite3: 10,000 rows in, indexed, joined, summed, checked"""
    exe, = need("sqlite3")
    rows = same(["libsqlite3", "libc"], [exe, ":memory:", """
        create table t(a integer primary key, b text, c real);
        with recursive n(x) as (select 1 union all select x + 1 from n where x < 10000)
          insert into t select x, printf('row %d', x * 7919 % 10007), x / 8.0 from n;
        create index i on t(b); select count(*), sum(a), sum(c), min(b), max(b) from t;
        update t set b = b || '!' where a % 3 = 0; delete from t where a % 10 = 7;
        select count(*), sum(length(b)) from t where b like '%!';
        select a, b from t order by b limit 5; select x.a from t x join t y on x.b = y.b where x.a < 6;
        pragma integrity_check;"""])
    assert rows


@test
def git():
    """git: init, add, commit, gc, fsck, log; each object right"""
    exe, = need("git")
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1",
           "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
           "GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}

    def history(where, run):
        repo = os.path.join(where, "r")
        os.mkdir(repo)
        run(["init", "-q", "-b", "main"], repo)
        for k in range(2):
            for i in range(40):
                with open(os.path.join(repo, "f%d" % i), "w") as f:
                    f.write("".join("line %d\n" % (j * (i + 1) + k * (j % 17)) for j in range(300)))
            run(["add", "."], repo)
            run(["commit", "-q", "-m", "commit %d" % k], repo)
        run(["gc", "-q"], repo)
        run(["fsck", "--full", "--strict"], repo)
        return subprocess.run([exe, "rev-parse", "HEAD"], cwd=repo, env=env, stdout=subprocess.PIPE, text=True).stdout

    def plain(args, repo):
        subprocess.run([exe, *args], cwd=repo, env=env, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    seen = []

    def probed(args, repo):
        r = dprobes("trace", "-o", "/dev/null", *both(["git", "libc", "libz"]), "--", exe, *args, cwd=repo,
                    env=env, check=0)
        assert "ended with" not in r.stderr and "ended by" not in r.stderr, (args, r.stdout, r.stderr[-3000:])
        seen.append(rows_of(r.stderr)["total"]["hits"])

    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        want, have = history(a, plain), history(b, probed)
        assert want == have and len(want) > 30, (want, have)
    print("# figure: git: %d commands under probes, %d hits, same commit" % (len(seen), sum(seen)))


HASHES = ["sha256", "sha1", "sha512", "md5", "sha3-256", "blake2b512", "ripemd160", "sm3"]


@test
def openssl():
    """openssl: digests, ciphers and signatures with all of libcrypto probed"""
    exe, = need("openssl")
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "data")
        data = bytes((i * i >> 3) & 255 for i in range(400000))
        with open(path, "wb") as f:
            f.write(data)
        for name in HASHES[:2]:
            same(["libcrypto"], [exe, "dgst", "-" + name, path])
        r = dprobes("trace", "-o", "/dev/null", "p libcrypto:* " + NEVER, "--", exe, "dgst", "-sha256", path, check=0)
        assert hashlib.sha256(data).hexdigest() in r.stdout, r.stdout
        for cipher in ("aes-256-cbc", "aes-128-ctr", "chacha20"):
            same(["libcrypto"], [exe, "enc", "-" + cipher, "-in", path, "-K", "00112233445566778899aabbccddeeff" * 2
                                 if "128" not in cipher else "00112233445566778899aabbccddeeff", "-iv",
                                 "0102030405060708090a0b0c0d0e0f10", "-a"])
        key = os.path.join(d, "key")
        subprocess.run([exe, "genrsa", "-out", key, "2048"], stderr=subprocess.DEVNULL, check=True)
        same(["libcrypto", "libc"], [exe, "dgst", "-sha256", "-sign", key, "-hex", path])


@test
def instructions_of_openssl():
    """openssl: all instructions of named hot functions, and of every 24th function of libcrypto"""
    exe, = need("openssl")
    lib = next((p for p in ("/lib/x86_64-linux-gnu/libcrypto.so.3", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3")
                if os.path.exists(p)), None)
    if not lib:
        raise Skip("libcrypto.so.3 is not installed")
    hot = ["*SHA*", "*MD5*", "*aes*", "*AES*", "BN_*", "OPENSSL_*", "EVP_Digest*"]
    with tempfile.TemporaryDirectory() as d:
        path, key = os.path.join(d, "data"), os.path.join(d, "key")
        with open(path, "wb") as f:
            f.write(b"".join(b"%d," % (i * i) for i in range(4000)))
        subprocess.run([exe, "genrsa", "-out", key, "1024"], stderr=subprocess.DEVNULL, check=True)
        sign = [exe, "dgst", "-sha256", "-sign", key, "-hex", path]
        same([], sign, extra=instructions("libcrypto", lib, hot))
        phases = range(24) if os.environ.get("DP_ALL") else (3, 11)
        for k in phases:
            same([], sign, extra=instructions("libcrypto", lib, ["*"], every="24+%d" % k), hits=100)


@test
def musl():
    """musl: dynamic and static, all functions of program and library"""
    if not os.path.exists(target("simple-musl")):
        raise Skip("musl-gcc is not installed")
    for name in ("simple-musl", "simple-musl-static"):
        argv = [target(name), "3", "20000"]
        r = dprobes("trace", "-o", "/dev/null", "p * " + NEVER, "r * " + NEVER_R, "--", *argv, check=0)
        assert "calls 60000 bad 0" in r.stdout and "ended" not in r.stderr, (r.stdout, r.stderr[-2000:])
        total = rows_of(r.stderr)["total"]
        assert total["hits"] > 120000 and not total["missed"], total


@test
def perl():
    """perl: regular expressions, hashes, sorting, string building"""
    exe, = need("perl")
    same(["perl", "libc"], [exe, "-e", r"""
        my %h; $h{$_ * 7919 % 1009} = $_ for 1 .. 3000;
        print join(",", map { "$_=$h{$_}" } (sort { $a <=> $b } keys %h)[0 .. 9]), "\n";
        my $t = join " ", map { "w$_" } 1 .. 2000; my $n = () = $t =~ /w\d*7\b/g; print "$n\n"; $t =~ s/(\d)(\d)/$2$1/g;
        print length($t), " ", unpack("%32C*", $t), "\n"; my $x = eval { die { code => 42 } }; print $@->{code}, "\n";
        printf "%.10f %s\n", sqrt(2), scalar reverse "abc"; exit 9"""], env={"PERL_HASH_SEED": "0", "LC_ALL": "C"})


run()
