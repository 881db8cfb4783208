# SPDX-License-Identifier: Apache-2.0
"""
Family G where the host grants no user namespaces: one proxy, and nothing beside it

By the ordinary user, on the host of net.py, in a user namespace of which no other can be made (bare.py); as root there is nothing to try.
What programs inside may connect to at all is in test_l_bare.py; here it is who is reached through the proxy, seen at the receiving side.
"""
import os
import sys

os.environ["ATOLL_BARE"] = os.environ.get("ATOLL_BARE") or "1"
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import net  # noqa: E402
from net import NO_WAY, connections, inside  # noqa: E402

if IS_ROOT:
    print("skip all of it: without user namespaces only an ordinary user can run atoll\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)
rig = net.enter()
ACCEPTED = [part for word in (*bare.WORDS, "network") for part in ("--accept-weaker", word)]

PROXY = r"""
import base64, urllib.parse
at = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
token = base64.b64encode(("%s:%s" % (at.username, at.password)).encode()).decode()
def by_proxy(head, key=token, then=b""):
    with socket.create_connection((at.hostname, at.port), 30) as s:
        s.sendall(head.encode() + ("Proxy-Authorization: Basic %s\r\n" % key if key else "").encode() + b"\r\n" + then)
        return everything(s)
"""


@test("NET-01 through the proxy only what rules name is reached; without its password nobody is")
def _():
    with Place() as place:
        rig.clear()
        result = run(place, [*ACCEPTED, "--allow", "good.test", "--json"], inside(PROXY + r"""
outcome("control", lambda: by_proxy("GET http://good.test/ok HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n"))
outcome("evil", lambda: by_proxy("GET http://evil.test/X HTTP/1.1\r\nHost: evil.test\r\n"))
outcome("connect evil", lambda: by_proxy("CONNECT evil.test:443 HTTP/1.1\r\n"))
outcome("connect loopback", lambda: by_proxy("CONNECT 127.0.0.1:7777 HTTP/1.1\r\n"))
outcome("connect private", lambda: by_proxy("CONNECT 10.9.0.5:80 HTTP/1.1\r\n"))
outcome("no password", lambda: by_proxy("GET http://good.test/X HTTP/1.1\r\nHost: good.test\r\n", ""))
outcome("wrong password", lambda: by_proxy("GET http://good.test/X HTTP/1.1\r\nHost: good.test\r\n", base64.b64encode(b"atoll:wrong").decode()))
outcome("directly", lambda: reach("93.184.216.34", 80))
outcome("directly to the canary", lambda: reach("127.0.0.1", 7777))
outcome("dns", lambda: dns("good.test", wait=1))
"""))
        result.allowed("control")
        result.refused(*[label for label in result.tries if label not in ("control", "end")], how=(*NO_WAY, "http 407", "http 502", "EAFNOSUPPORT"))
        same([(one["host"], one["path"]) for one in rig.requests(1)], [("good.test", "/ok")], "requests that arrived")
        same(rig.requests()[0]["proxyauth"], "", "the proxy's password at the server")
        same(rig.canaries(), [], "services of the host")
        rig.silence("evil.test")
        check([one for one in connections(result) if one["name"] == "evil.test" and one["verdict"] == "refused"], "not told: %s" % connections(result))


@test("clients that know a proxy work: curl, git, python, TLS passed on and opened; a secret arrives at its host alone")
def _():
    need("curl", "git")
    with Place() as place:
        place.expect("got")
        rig.clear()
        result = run(place, [*ACCEPTED, "--allow", "good.test"], inside_sh("""
            curl -sSf -m 40 http://good.test/a https://good.test/b && git ls-remote -q https://good.test/py/git/repo.git &&
            /usr/bin/python3 -c 'import urllib.request as u; u.urlopen("https://good.test/c", timeout=40).read()'"""))
        same(result.status, 0, "clients")
        check({"/a", "/b", "/c", "/py/git/repo.git/info/refs"} <= {one["path"] for one in rig.requests(4)}, "requests that arrived: %s" % rig.requests())
        rig.clear()
        check(run(place, [*ACCEPTED, "--allow", "good.test"], ["curl", "-sSf", "-m", "5", "https://evil.test/"]).status != 0, "curl to another")
        same(rig.requests(), [], "requests")
        value = "sk-" + os.urandom(16).hex()
        result = run(place, [*ACCEPTED, "--allow", "api.test", "--allow", "other.test", "--secret", "API_KEY=api.test"], inside_sh(
            'for h in api.test other.test; do curl -sSf -m 40 -H "Authorization: Bearer $API_KEY" https://$h/reflect || exit 1; done'), env={"API_KEY": value})
        same(result.status, 0, "curl with a secret")
        by = {one["host"]: one["auth"] for one in rig.requests(2)}
        same(by["api.test"], "Bearer " + value, "at its host")
        check(value not in by["other.test"] and value not in result.out + result.err, "the value got elsewhere: %s" % by)


@test("N38 the proxy of another run cannot be reached, whatever is allowed; a server of the host's can")
def _():
    with Place() as place, Place() as other:
        place.expect("port", "go")
        running = start(place, [*ACCEPTED, "--allow", "good.test"], inside(PROXY + 'put("port.new", str(at.port).encode()); os.rename("port.new", "port"); until(lambda: os.path.exists("go"))'))
        wait_file(place, "port")
        port = int(read(place.ws + "/port"))
        for target, wanted in ((port, False), (net.CANARY, True)):
            result = run(other, [*ACCEPTED, "--allow", "127.0.0.1:%d" % target], inside(PROXY + r"""
outcome("way", lambda: by_proxy("CONNECT 127.0.0.1:%s HTTP/1.1\r\n" % arg[0], then=b"GET / HTTP/1.0\r\n\r\n"))
""", str(target)))
            same(result.tries["way"] not in (*NO_WAY, "http 502"), wanted, "the way to port %d: %s" % (target, result.tries["way"]))
        write(place.ws + "/go")
        running.wait()


main()
