# SPDX-License-Identifier: BSD-2-Clause
"""A real browser for tests: Chromium without a window, driven through chromedriver by the WebDriver protocol."""

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

START_SECONDS = 60
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# Nothing is to be loaded: Chromium itself is kept from asking for updates and lists.
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--hide-scrollbars"]


def missing():
    """Why there is no browser; None: there is one."""
    for program in ["chromium", "chromedriver"]:
        if not shutil.which(program):
            return f"{program} is not installed"
    return None


class Browser:
    def __init__(self, width=1280, height=860, dark=False):
        """Chromium itself sometimes hangs while it starts on a busy machine, before it has seen any page."""
        for last in (False, False, True):
            try:
                self.start(width, height, dark)
                return
            except (OSError, RuntimeError):
                self.end()
                if last:
                    raise

    def start(self, width, height, dark):
        self.folder = tempfile.mkdtemp(prefix="assay-browser-")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        self.base = f"http://127.0.0.1:{self.read_port()}"
        flags = FLAGS + [f"--user-data-dir={self.folder}", f"--window-size={width},{height}"]
        if dark:
            flags.append("--force-dark-mode")
        wish = {"browserName": "chrome", "goog:chromeOptions": {"args": flags, "binary": shutil.which("chromium")},
                "goog:loggingPrefs": {"browser": "ALL"}}
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wish}}, START_SECONDS)
        self.base += f"/session/{session['sessionId']}"
        self.resize(width, height, START_SECONDS)

    def read_port(self):
        for line in self.driver.stdout:
            found = re.search(r"on port (\d+)\.", line)
            if found and int(found.group(1)):
                return found.group(1)
        raise RuntimeError("chromedriver did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", "")
        except (OSError, RuntimeError):
            pass
        self.end()

    def end(self):
        """With all of its processes: they are in a session of their own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.driver.pid, signal.SIGKILL)
        self.driver.wait()
        self.driver.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, path, body=None, seconds=120):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.base + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def resize(self, width, height, seconds=120):
        """The size of the page itself, which a window's borders take from."""
        self.cdp("Emulation.setDeviceMetricsOverride",
                 {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}, seconds)

    def cdp(self, command, parameters, seconds=120):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters}, seconds)

    def theme(self, name):
        self.cdp("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def open(self, path, view=""):
        """A file, without a web server. Waits until the page is drawn; returns how many ms it took."""
        return self.open_url(f"file://{os.path.abspath(path)}{view}")

    def open_url(self, url):
        self.call("POST", "/url", {"url": "about:blank"})
        self.call("POST", "/url", {"url": url})
        return int(self.wait("return document.documentElement.dataset.ready || ''"))

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, *arguments, seconds=30):
        """Until the script gives something that is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            result = self.run(script, *arguments)
            if result:
                return result
            time.sleep(0.05)
        raise AssertionError(f"did not come true within {seconds} s: {script}")

    def settle(self):
        """Until events that are under way, as those of a link within the page, are handled and drawn."""
        self.run("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def go(self, hash_text):
        self.run("location.hash = arguments[0]", hash_text)
        self.settle()

    def find(self, selector):
        element = self.call("POST", "/element", {"using": "css selector", "value": selector})
        return element[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click", {})
        self.settle()

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})
        self.settle()

    def click_at(self, selector, x, y):
        """At a point of an element, counted from its upper left corner."""
        left, top = self.run("const box = document.querySelector(arguments[0]).getBoundingClientRect();"
                             "return [box.left, box.top]", selector)
        self.pointer([("pointerMove", left + x, top + y), ("pointerDown",), ("pointerUp",)])

    def pointer(self, steps):
        actions = []
        for kind, *place in steps:
            action = {"type": kind}
            if place:
                action |= {"x": round(place[0]), "y": round(place[1]), "duration": 0}
            else:
                action["button"] = 0
            actions.append(action)
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]})
        self.settle()

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def complaints(self):
        """What the browser logged: errors of the script, what the policy of the page forbade."""
        log = self.call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path, full=False):
        wish = {"captureBeyondViewport": full}
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(base64.b64decode(self.cdp("Page.captureScreenshot", wish)["data"]))
