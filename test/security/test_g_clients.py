# SPDX-License-Identifier: Apache-2.0
# check: seconds 76
# check: not sanitized
# check: timeout 480
"""
Family G: what must work. Real clients, with no variable set (--no-proxy) and with the proxy's; asserted at the server

Each client does the same twice: to a name that a rule allows, where it must succeed and be seen at the server; and to one that none does,
where it must fail, soon, and nothing must arrive.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import net  # noqa: E402

rig = net.enter()
SSH = 'umask 077; cp key /tmp/key; export GIT_SSH_COMMAND="ssh -F /dev/null -i /tmp/key -o IdentitiesOnly=yes -o UserKnownHostsFile=known -o BatchMode=yes -o ConnectTimeout=40"; '


number = iter(range(1000))


def tried(name, script, tools=(), ports="", good="good.test", evil="evil.test", prepare=None, seen=None, files=(), flags=(), seconds=6, modes=("direct", "proxy")):
    """`script` with $1 for the host. seen(): true if it arrived. What a client does is the same for everybody: where root and a user
    both take part (ATOLL_HALF), each has every second one."""
    if os.environ.get("ATOLL_HALF") and not os.environ.get("ATOLL_LONG") and next(number) % 2 != IS_ROOT:
        return
    seen = seen or (lambda: any(one["host"].startswith(good) for one in rig.requests(1)))

    @test("a client: %s" % name)
    def _():
        need(*tools)
        for mode in modes:
            with Place() as place:
                place.expect(*files)
                if prepare:
                    prepare(place)
                how = [*flags, "--allow", good + ports] + (["--no-proxy"] if mode == "direct" else [])
                rig.clear()
                result = run(place, how, inside_sh(script, good), timeout=40)
                same(result.status, 0, "%s, %s" % (name, mode))
                check(seen(), "%s, %s: nothing arrived" % (name, mode))
                rig.clear()
                began = time.monotonic()
                result = run(place, how, inside_sh(script, evil), timeout=40)
                check(result.status != 0, "%s, %s: it reached whom no rule names" % (name, mode))
                check(time.monotonic() - began < seconds * SLOW, "%s, %s: refused only after %.1f s" % (name, mode, time.monotonic() - began))
                check(not rig.requests() and not [one for one in rig.queries() if evil in one], "something arrived: %s %s" % (rig.requests(), rig.queries()))


def prepare_ssh(place):
    for source, target in (("id", "key"), ("known_hosts", "known")):
        shutil.copy("%s/%s" % (rig.where, source), "%s/%s" % (place.ws, target))
    text = read(place.ws + "/known").decode()
    write(place.ws + "/known", text.replace("git.test,", "git.test,evil.test,"))
    os.chmod(place.ws + "/key", 0o644)


def keystore(place):
    done = subprocess.run(["keytool", "-J-XX:-UsePerfData", "-importcert", "-noprompt", "-trustcacerts", "-alias", "test", "-file", rig.where + "/ca.pem", "-keystore", place.ws + "/trust", "-storepass", "changeit"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(done.returncode == 0, "keytool: %s" % done.stdout)
    write(place.ws + "/Get.java", """
        import java.net.*; import java.io.*;
        public class Get { public static void main(String[] a) throws Exception {
            for (String u : a) { var c = new URL(u).openConnection(); c.setConnectTimeout(5000); c.setReadTimeout(5000); System.out.println(new String(c.getInputStream().readAllBytes())); } } }""")
    done = subprocess.run(["javac", "-J-XX:-UsePerfData", "Get.java"], cwd=place.ws, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(done.returncode == 0, "javac: %s" % done.stdout)


def go_program(place):
    write(place.tmp + "/get.go", """
        package main
        import ("fmt"; "io"; "net"; "net/http"; "os"; "time")
        func main() {
            client := http.Client{Timeout: 5 * time.Second}
            for _, url := range os.Args[2:] {
                got, err := client.Get(url)
                if err != nil { fmt.Println(err); os.Exit(1) }
                io.Copy(os.Stdout, got.Body)
            }
            c, err := net.DialTimeout("tcp", os.Args[1] + ":7000", 5 * time.Second)
            if err != nil { fmt.Println(err); os.Exit(1) }
            c.Write([]byte("from go\\n")); b := make([]byte, 8)
            if _, err := io.ReadFull(c, b); err != nil { fmt.Println(err); os.Exit(1) }
        }""")
    done = subprocess.run(["go", "build", "-o", place.ws + "/get", "get.go"], cwd=place.tmp, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={"PATH": HOST_PATH, "HOME": place.tmp, "GOCACHE": place.tmp + "/cache", "GO111MODULE": "off", "GOFLAGS": "-p=2"})
    check(done.returncode == 0, "go build: %s" % done.stdout)


def seen_data(word):
    return lambda: until(lambda: any(word in one["data"] for one in rig.arrived()))


tried("curl, http and https, IPv4", 'curl -4 -sSf -m 40 http://$1/ https://$1/', ["curl"])
tried("curl, IPv6 alone", 'curl -6 -sSf -m 40 http://$1/ https://$1/', ["curl"], good="v6.test", modes=("direct",))
tried("curl, a server that has only IPv4", 'curl -sSf -m 40 http://$1/ https://$1/', ["curl"], good="v4.test")
tried("curl over SOCKS 5 with names", 'curl -sSf -m 40 -x socks5h://127.0.0.1:1023 http://$1/ https://$1/', ["curl"], modes=("direct",))
tried("curl over SOCKS 5 without names", 'curl -4 -sSf -m 40 -x socks5://127.0.0.1:1023 http://$1/ https://$1/', ["curl"], modes=("direct",))
tried("curl over a CONNECT proxy for all", 'curl -sSf -m 40 -p -x http://127.0.0.1:1023 http://$1/ https://$1/', ["curl"], modes=("direct",))
tried("wget", 'wget -q -O- --timeout=40 --tries=1 http://$1/ https://$1/', ["wget"])
tried("git clone over https", 'rm -rf got; git clone -q https://$1/py/git/repo.git got && grep -q cloned got/file', ["git"], files=("got",))
tried("git clone over ssh", SSH + 'rm -rf got; git clone -q "git@$1:%s/git/repo.git" got && grep -q cloned got/file' % rig.where, ["git", "ssh"], ports=":22", good="git.test", prepare=prepare_ssh,
      files=("got", "key", "known"), seen=lambda: ("tcp %s:22" % net.SERVER4 in rig.attempts() or "tcp %s:22" % net.SERVER6 in rig.attempts()))
tried("python3 sockets", """/usr/bin/python3 -c 'import socket, sys
s = socket.create_connection((sys.argv[1], 7000), 30); s.sendall(b"from python\\n"); s.settimeout(30); assert s.recv(20) == b"from python\\n"' $1""", ports=":7000", seen=seen_data("from python"))
tried("python3 urllib", """/usr/bin/python3 -c 'import urllib.request as u, sys
for k in ("http", "https"): u.urlopen(k + "://" + sys.argv[1] + "/", timeout=40).read()' $1""")
tried("python3 requests", """/usr/bin/python3 -c 'import requests, sys
for k in ("http", "https"): requests.get(k + "://" + sys.argv[1] + "/", timeout=40).raise_for_status()' $1""",
      prepare=lambda place: skip("no python3-requests on this host") if subprocess.run([PYTHON, "-c", "import requests"], stderr=subprocess.DEVNULL).returncode else None)
tried("python3 asyncio", """/usr/bin/python3 -c 'import asyncio, sys
async def go():
    r, w = await asyncio.wait_for(asyncio.open_connection(sys.argv[1], 443, ssl=True), 8)
    w.write(b"GET / HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n" % sys.argv[1].encode()); assert b"hello" in await r.read()
asyncio.run(go())' $1""")
tried("node, http, https and fetch", """node -e 'const h = process.argv[1]; const get = (m, u) => new Promise((y, n) => require(m).get(u, r => { r.resume(); r.on("end", y) }).on("error", n));
Promise.resolve().then(() => get("http", "http://" + h + "/")).then(() => get("https", "https://" + h + "/")).then(() => fetch("https://" + h + "/")).then(r => r.text()).then(console.log, e => { console.error(e); process.exit(1) })' $1""",
      ["node"], flags=["--env", "NODE_EXTRA_CA_CERTS=" + net.BUNDLE])
tried("pip", "pip3 install -q --no-cache-dir --disable-pip-version-check --retries 0 --timeout 5 --target /tmp/got --index-url https://$1/simple tinypackage && grep -q installed /tmp/got/tinypackage.py", ["pip3"], seconds=15, modes=("direct",))
tried("npm", "cd /tmp && npm install --no-audit --no-fund --fetch-retries=0 --registry https://$1/npm/ tinypackage >log 2>&1 || { cat log; exit 1; }; grep -q installed node_modules/tinypackage/index.js", ["npm"],
      flags=["--env", "NODE_EXTRA_CA_CERTS=" + net.BUNDLE], seconds=15, modes=("direct",))
tried("psql", "psql -h $1 -U x -c 'select 1' db | grep -q from-fake", ["psql"], ports=":5432", good="db.test", seen=seen_data("select 1"), flags=["--env", "PGCONNECT_TIMEOUT=5"])
tried("Go, its own resolver", "GODEBUG=netdns=go ./get $1 http://$1/ https://$1/", ["go"], ports=":80,443,7000", prepare=go_program, files=("get",), modes=("direct",))
tried("Java", "java -XX:TieredStopAtLevel=1 -Djavax.net.ssl.trustStore=trust -Djavax.net.ssl.trustStorePassword=changeit Get http://$1/ https://$1/", ["java", "javac", "keytool"], prepare=keystore, files=("trust", "Get.*"), seconds=15, modes=("direct",))
tried("openssl s_client", "echo | timeout 8 openssl s_client -connect $1:443 -servername $1 -verify_return_error -brief", ["openssl"], modes=("direct",), seen=lambda: any(one.endswith(":443") for one in rig.attempts()))
tried("perl", """perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => 7000, Timeout => 5) or exit 1; print $s "from perl\n"; <$s> =~ /perl/ or exit 1' $1""", ["perl"], ports=":7000",
      seen=seen_data("from perl"), modes=("direct",))


@test("where egress opens TLS the usual clients trust it, with no option of theirs")
def _():
    clients = {
        "curl": "curl -sSf -m 40 https://$1/curl", "wget": "wget -q -O- --timeout=40 https://$1/wget", "git": "git ls-remote https://$1/py/git/repo.git",
        PYTHON: "/usr/bin/python3 -c 'import urllib.request as u, sys; u.urlopen(\"https://\" + sys.argv[1] + \"/python\", timeout=40).read()' $1",
        "node": "node -e 'fetch(\"https://\" + process.argv[1] + \"/node\").then(r => r.text()).then(console.log, e => { console.error(e); process.exit(1) })' $1",
        "openssl": "echo | timeout 8 openssl s_client -connect $1:443 -servername $1 -verify_return_error -brief",
        "pip3": "pip3 install -q --no-cache-dir --disable-pip-version-check --retries 0 --timeout 5 --target /tmp/got --index-url https://$1/simple tinypackage",
    }
    if not subprocess.run([PYTHON, "-c", "import requests"], stderr=subprocess.DEVNULL).returncode:
        clients["env"] = "/usr/bin/python3 -c 'import requests, sys; requests.get(\"https://\" + sys.argv[1] + \"/requests\", timeout=40).raise_for_status()' $1"
    with Place() as place:
        job = job_file(place, {"network": {"allow": [{"host": "good.test", "methods": ["GET", "POST"]}]}})
        for name, script in clients.items():
            if not shutil.which(name, path="/usr/bin:/bin"):
                continue
            for mode in ([], ["--no-proxy"]) if name in ("curl", "env", "node") else (["--no-proxy"],):
                rig.clear()
                result = run(place, [*mode, "-f", job], inside_sh(script, "good.test"), timeout=40)
                same(result.status, 0, "%s %s" % (name, mode))
                check(rig.requests(1) or name == "openssl", "%s: nothing arrived" % name)


ASK_JAVA = r"""
import java.io.*; import java.net.*; import java.security.*; import javax.net.ssl.*;
public class Ask {
    static SSLSocketFactory others() throws Exception {  // as without the run's store
        KeyStore store = KeyStore.getInstance(new File("host"), "changeit".toCharArray());
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context.getSocketFactory();
    }
    static void ask(String method, String url, SSLSocketFactory sockets) throws Exception {
        HttpsURLConnection c = (HttpsURLConnection) new URL(url).openConnection();
        c.setConnectTimeout(5000); c.setReadTimeout(5000); c.setRequestMethod(method);
        if (sockets != null) c.setSSLSocketFactory(sockets);
        try { System.out.println(method + " " + c.getResponseCode()); }
        catch (SSLHandshakeException e) { System.out.println(method + " " + e.getClass().getSimpleName()); }
    }
    public static void main(String[] a) throws Exception {
        for (String type : new String[]{"JKS", "PKCS12"}) {  // a password: the digest is looked at
            KeyStore store = KeyStore.getInstance(type);
            try (InputStream in = new FileInputStream(System.getProperty("java.home") + "/lib/security/cacerts")) { store.load(in, "changeit".toCharArray()); }
            System.out.println(type + " " + store.size());
        }
        ask("GET", a[0] + "/java", null);
        ask("POST", a[0] + "/posted", null);
        ask("GET", a[0] + "/unknown", others());
    }
}"""


@test("where egress opens TLS Java trusts it, with no option and no variable; with the host's own store it does not")
def _():
    need("java")
    store = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(shutil.which("java"))), "../lib/security/cacerts"))
    if not os.path.exists(store) or not os.path.realpath(shutil.which("java")).startswith("/usr/lib/jvm/"):
        skip("no Java with a key store in /usr/lib/jvm")
    with Place() as place:
        place.expect("Ask.java", "host")
        write(place.ws + "/Ask.java", ASK_JAVA)
        shutil.copyfile(store, place.ws + "/host")
        before = read(store)
        job = job_file(place, {"network": {"allow": [{"host": "good.test", "methods": ["GET"]}]}})
        rig.clear()
        result = run(place, ["-f", job, "--no-proxy"], inside_sh("exec env -i java -XX:TieredStopAtLevel=1 Ask.java https://good.test"), timeout=60)
        same(result.status, 0, "java")
        count = read(net.BUNDLE).count(b"BEGIN CERTIFICATE") + 1
        same(result.out.split("\n")[:-1], ["JKS %d" % count, "PKCS12 %d" % count, "GET 200", "POST 403", "GET SSLHandshakeException"], "what Java saw")
        same([(one["method"], one["path"]) for one in rig.requests(1)], [("GET", "/java")], "what arrived")
        same(read(store), before, "the host's store")


@test("NET-34 git with rules for paths: a clone works, a push does not, and no other repository")
def _():
    with Place() as place:
        job = job_file(place, {"network": {"allow": [{"host": "good.test", "methods": ["GET", "POST"], "paths": ["/py/git/repo.git/info/refs", "/py/git/repo.git/git-upload-pack"]}]}})
        everything = job_file(place, {"network": {"allow": [{"host": "good.test", "methods": ["GET", "POST"]}]}}, "all.yaml")
        script = """
            cd /tmp; export GIT_TERMINAL_PROMPT=0; git clone -q https://good.test/py/git/repo.git got || exit 10; cd got; git config user.name a; git config user.email a@example.org
            git ls-remote -q https://good.test/py/git/other.git 2>/dev/null && exit 12
            date +%N >more; git add more; git commit -q -m more; git push -q origin HEAD:refs/heads/$1 || exit 11"""
        rig.clear()
        result = run(place, ["-f", job], inside_sh(script, "by-rule"))
        same(result.status, 11, "clone and push")
        same({one["path"] for one in rig.requests(3)}, {"/py/git/repo.git/info/refs", "/py/git/repo.git/git-upload-pack"}, "paths that arrived")
        result = run(place, ["-f", everything], inside_sh(script, "allowed-" + place.token))
        same(result.status, 0, "where all paths are allowed")
        check("/py/git/repo.git/git-receive-pack" in {one["path"] for one in rig.requests()}, "the push did not arrive")


main()
