#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S3, S4, V20.
"""assay serve: what it answers is what assay report prints; what is hostile is refused and changes nothing; a page of a
running recording is renewed, and starts recordings only where that was allowed."""

import errno
import gzip
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import unittest
import urllib.parse

import lib
import lib_browser


class Server:
    """assay serve in the background, until the end of the block."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([lib.ASSAY, "serve", *arguments], stderr=subprocess.PIPE, text=True,
                                        stdin=subprocess.DEVNULL)
        self.url = address_of(self.process.stderr)
        parts = urllib.parse.urlsplit(self.url)
        self.host, self.port, self.path = parts.hostname, parts.port, parts.path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)

    def ask(self, path, method="GET", body=None, headers=None):
        """(status, body, headers) of a path below the token."""
        return self.ask_raw(self.path + path, method, body, headers)

    def ask_raw(self, target, method="GET", body=None, headers=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        connection.request(method, target, body, headers or {})
        answer = connection.getresponse()
        result = answer.status, answer.read(), dict(answer.getheaders())
        connection.close()
        return result

    def talk(self, data):
        """What comes back for bytes that need not be HTTP."""
        with socket.create_connection((self.host, self.port), timeout=60) as connection:
            answer = b""
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(65536):
                    answer += piece
            except OSError as error:  # it need not listen to the end
                if error.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
                    raise
            return answer


def address_of(stream):
    """The address that a server prints."""
    for line in stream:
        found = re.search(r"http://\S+/[0-9a-f]{32}/", line)
        if found:
            return found.group(0)
    raise AssertionError("no address was printed")


def content_hash(path):
    with open(path, "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.profile = lib.record("-F", "997", "--", lib.build("shares.c"), "1").path
        cls.server = Server("-i", cls.profile)
        cls.addClassCleanup(cls.server.__exit__)

    def test_views_are_those_of_the_report(self):
        for request in ["functions", "lines?limit=3", "tree?min-share=1%25", "losses", "functions?symbol=fort*&sort=total"]:
            status, body, headers = self.server.ask("report/" + request)
            self.assertEqual((status, headers["Content-Type"]), (200, "application/json"), body)
            self.assertEqual(json.loads(body), lib.report(self.profile, request), request)

    def test_the_page_and_its_data(self):
        status, body, headers = self.server.ask("")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn(b"connect-src 'self'", body)
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")
        status, body, headers = self.server.ask("data")
        self.assertEqual((status, headers["Content-Encoding"]), (200, "gzip"))
        data = json.loads(gzip.decompress(body))
        totals = lib.report(self.profile, "functions")["totals"]
        self.assertEqual(data["profiles"][0]["totals"]["seen"], totals["seen"])
        state = json.loads(self.server.ask("state")[1])
        self.assertEqual((state["live"], state["may_start"]), (False, False))

    def test_wrong_requests_get_the_sentence_of_the_command(self):
        for request, status, text in [("nosuch", 400, "'nosuch' is not a view"), ("functions?limit=x", 400, "whole number"),
                                      ("functions?nosuch=1", 400, "no such option"), ("functions?sort=nosuch", 400, "nosuch"),
                                      ("functions?symbol=%zz", 400, "two digits"), ("paths", 404, "assay trace"),
                                      ("functions?bottom-up", 400, "bottom-up")]:
            got, body, _ = self.server.ask("report/" + request)
            self.assertEqual(got, status, (request, body))
            self.assertIn(text, body.decode())

    def test_hostile_requests_are_refused(self):
        before = content_hash(self.profile)
        token = self.server.path.strip("/")
        wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
        for target in ["/", "/state", "/report/functions", f"/{wrong}/", f"/{token[:-1]}/", f"/{token}", f"//{token}/",
                       f"/{token.upper()}x/", f"/..//{token}/"]:
            self.assertEqual(self.server.ask_raw(target)[0], 403, target)
        for path in ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "report/../../../etc/passwd", "data/", "/etc/passwd",
                     "data?x", "report", "%00"]:
            status, body, _ = self.server.ask(path)
            self.assertIn(status, (400, 404), path)
            self.assertNotIn(b"root:", body)
        self.assertEqual(self.server.ask("report/" + "a" * 9000)[0], 414)
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "BREW"]:
            self.assertIn(self.server.ask("data", method)[0], (405, 501), method)
        self.assertEqual(self.server.ask("start")[0], 405)
        self.assertEqual(self.server.ask("start", "POST", "values")[0], 403)
        self.assertEqual(self.server.ask("start", "POST", "x" * 100000)[0], 413)
        self.assertEqual(content_hash(self.profile), before)

    def test_names_of_others_are_refused(self):
        """A page of somebody else's whose name points here (DNS rebinding) would send its own name."""
        for host, status in [("evil.example", 403), (f"evil.example:{self.server.port}", 403), ("127.0.0.1:1", 403),
                             (f"localhost:{self.server.port}", 200), (f"127.0.0.1:{self.server.port}", 200)]:
            self.assertEqual(self.server.ask("state", headers={"Host": host})[0], status, host)

    def test_what_is_not_http_leaves_it_alive(self):
        path = self.server.path.encode()
        for data in [b"", b"\0" * 5000, b"GET " + path + b"state", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 1000,
                     b"POST " + path + b"start HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                     b"POST " + path + b"start HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
                     b"GET " + path + b"state HTTP/1.1\r\n" + b"X: " + b"y" * 200000 + b"\r\n\r\n",
                     b"GET " + b"/" * 100000 + b" HTTP/1.1\r\n\r\n"]:
            answer = self.server.talk(data)
            self.assertNotIn(b" 200 ", answer[:20], data[:60])
        held = [socket.create_connection((self.server.host, self.server.port)) for _ in range(30)]
        self.assertEqual(self.server.ask("state")[0], 200)
        for connection in held:
            connection.close()

    def test_other_addresses_need_a_flag(self):
        run = subprocess.run([lib.ASSAY, "serve", "-i", self.profile, "--address", "0.0.0.0"], capture_output=True, text=True,
                             timeout=60)
        self.assertEqual(run.returncode, 2)
        self.assertIn("nothing is encrypted", run.stderr)
        self.assertIn("--allow-remote", run.stderr)
        process = subprocess.Popen([lib.ASSAY, "serve", "-i", self.profile, "--address", "0.0.0.0", "--allow-remote"],
                                   stderr=subprocess.PIPE, text=True)
        self.assertIn("can be seen from other machines", process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0)

    def test_usage(self):
        for arguments, text in [(["--allow-start"], "takes the command"), (["--", "true"], "--allow-start"),
                                (["--address", "nonsense"], "is not an address"), (["--port", "99999"], "65535")]:
            run = subprocess.run([lib.ASSAY, "serve", "-i", self.profile, *arguments], capture_output=True, text=True,
                                 timeout=60)
            self.assertEqual(run.returncode, 2, arguments)
            self.assertIn(text, run.stderr)
        run = subprocess.run([lib.ASSAY, "serve", "-i", "/nonexistent"], capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 1)


class Live(unittest.TestCase):
    """A page of a recording that runs."""

    @classmethod
    def setUpClass(cls):
        why = lib_browser.missing()
        if why:
            raise unittest.SkipTest(why)
        cls.program = lib.build("shares.c")
        cls.browser = lib_browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def seen(self):
        return int(self.browser.run("return document.getElementById('totals')?.dataset.seen ?? 0"))

    def test_the_page_is_renewed_while_it_records(self):
        path = lib.scratch("live.db")
        recording = subprocess.Popen([lib.ASSAY, "record", "-F", "997", "--serve", "-o", path, "--", self.program, "1000"],
                                     stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        try:
            self.browser.open_url(address_of(recording.stderr) + "#functions")
            self.browser.wait("return document.querySelector('.live').dataset.live === 'true'")
            self.browser.wait("return Number(document.documentElement.dataset.renewed ?? 0) > 0")
            first = self.seen()
            self.browser.wait("return Number(document.getElementById('totals').dataset.seen) > arguments[0]", first)
            self.browser.wait("return [...document.querySelectorAll('td a')].some(a => a.textContent === 'main')")
            self.assertEqual(self.browser.run("return location.hash"), "#functions")
        finally:
            recording.send_signal(signal.SIGINT)
            _, err = recording.communicate(timeout=60)
        totals = lib.report(path, "functions")["totals"]
        self.browser.wait("return document.querySelector('.live').textContent === 'the server has ended'")
        self.browser.settle()
        self.assertEqual(self.seen(), totals["seen"], err)

    def test_the_page_starts_only_what_was_allowed(self):
        path = lib.record("-F", "997", "--", self.program, "0.3").path
        before = lib.report(path, "functions")["totals"]["seen"]
        with Server("-i", path, "--allow-start", "--", self.program, "0.6") as server:
            self.assertEqual(server.ask("start", "POST", "sh -c true")[0], 400)
            self.browser.open_url(server.url + "#functions")
            self.browser.run("[...document.querySelectorAll('td a')].find(a => a.textContent === 'main').click()")
            self.browser.wait("return document.querySelector('button.start[data-way=counts]')")
            self.browser.click("button.start[data-way=counts]")
            self.browser.wait("return document.querySelector('nav a[data-view=mix]')", seconds=60)
            self.assertEqual(json.loads(server.ask("state")[1])["way"], "counts")
            # What was looked at is shown again, also if the new recording did not have it at first.
            self.browser.wait("return document.querySelector('.function-name')?.textContent === 'main'", seconds=60)
        self.assertTrue(any(row["kind"] == "executed" for row in rows_of(path)))
        self.assertEqual(lib.report(path + ".old", "functions")["totals"]["seen"], before)

    def test_the_page_marks_an_instruction(self):
        path = lib.record("-F", "997", "--", self.program, "0.3").path
        with Server("-i", path, "--allow-start", "--", self.program, "0.2") as server:
            for body in ["marks", "marks ", "values forty", "marks data:", "marks x!0x10-0x8", "marksforty"]:
                self.assertEqual(server.ask("start", "POST", body)[0], 400, body)
            self.browser.open_url(server.url + "#functions")
            self.browser.run("[...document.querySelectorAll('td a')].find(a => a.textContent === 'forty').click()")
            self.browser.wait("return document.querySelector('button.place')")
            self.browser.run("document.querySelector('button.place').click()")
            at = self.browser.run("return document.querySelector('button.place').dataset.at")
            self.browser.click("tr.advice button.start[data-way=marks]")
            self.browser.wait("return document.querySelector('nav a[data-view=marks]')", seconds=60)
        row = lib.report(path, "marks")["rows"][0]
        self.assertTrue(row["mark"].endswith("!" + at), row)
        self.assertGreater(row["visits"], 0)

    def shown(self, column):
        return self.browser.run("const at = [...document.querySelectorAll('main th')].findIndex("
                                "th => th.dataset.column === arguments[0]);"
                                "return [...document.querySelectorAll('main tbody tr')].map(tr => tr.cells[at].textContent)",
                                column)

    def test_lines_and_call_sites_of_a_stretch_of_time(self):
        """A page alone does not know them; one of a server asks for them."""
        path = lib.record("-F", "997", "--", lib.build("halves.c"), "1.2").path
        first = lib.Profile(path).value("select min(second) from tick")
        with Server("-i", path) as server:
            for view, column in [("lines", "self"), ("callgraph", "total")]:
                rows = lib.report(path, view, "--from", str(first), "--to", str(first + 1))["rows"]
                self.browser.open_url(server.url + f"#{view}?from=0&to=1")
                self.browser.wait("const main = document.querySelector('main');"
                                  "return main?.dataset.view === arguments[0] && main.querySelector('table') &&"
                                  " !main.querySelector('[data-note]')", view)
                self.assertEqual(self.shown(column)[:150], [f"{row[column]:,}" for row in rows[:150]], view)
                places = [f"{row['file']}:{row['line']}" for row in rows[:150] if row["file"] and row["line"]]
                self.assertEqual([text for text in self.shown("place") if ":" in text], places)
            self.assertTrue(any("halves.c:" in place for place in places))

    def test_lines_of_a_thread(self):
        path = lib.record("-F", "997", "--", lib.build("threads.c"), "0.3").path
        thread, pid, tid = lib.Profile(path).rows(
            "select thread.id, pid, tid from thread join process on process.id = thread.process where pid <> tid")[0]
        rows = lib.report(path, "lines", "--pid", str(pid), "--tid", str(tid))["rows"]
        with Server("-i", path) as server:
            self.browser.open_url(server.url + f"#lines?thread={thread}")
            self.browser.wait("const main = document.querySelector('main');"
                              "return main?.querySelector('table') && !main.querySelector('[data-note]')")
            self.assertEqual(self.shown("self"), [f"{row['self']:,}" for row in rows])

    def test_nothing_is_left_behind(self):
        folder = lib.scratch("temporary")
        os.makedirs(folder, exist_ok=True)
        path = lib.scratch("copied.db")
        with lib.Recording("-F", "997", "--", self.program, "1000", output=path) as recording:
            recording.wait_begun()
            os.environ["TMPDIR"] = folder
            try:
                with Server("-i", path) as server:
                    lib.wait_until(lambda: server.ask("report/functions")[0] == 200)
                    self.assertTrue(json.loads(server.ask("state")[1])["live"])
                    self.assertEqual(len(os.listdir(folder)), 1)
            finally:
                del os.environ["TMPDIR"]
            recording.stop(code=None)
        self.assertEqual(os.listdir(folder), [])


def rows_of(path):
    return lib.Profile(path).rows("select kind from recording")


if __name__ == "__main__":
    lib.main()
