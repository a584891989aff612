# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A headless Chromium, driven by its DevTools protocol through pipes."""
import base64
import json
import os
import select
import tempfile
import time

from tap import Skip, need, start


class Browser:
    """One page. Whatever it asks of a network, and what it reports as an error, is kept."""

    def __init__(self, dark=False, width=1280, height=800, flags=()):
        path = need("chromium")[0]
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        home = tempfile.mkdtemp(prefix="dp-browser-", dir=tempfile.tempdir)

        def descriptors():  # the protocol is spoken at 3 and 4
            a, b = os.dup(to_browser), os.dup(from_browser)
            a, b = os.dup2(os.dup(a), 30), os.dup2(os.dup(b), 31)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = start([path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                              "--no-first-run", "--disable-extensions", "--disable-background-networking",
                              "--disable-component-update", "--remote-debugging-pipe", "--user-data-dir=" + home,
                              "--window-size=%d,%d" % (width, height), *flags, "about:blank"], pass_fds=(3, 4),
                             preexec_fn=descriptors, env=dict(os.environ, HOME=home))
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.session = 0, b"", None
        self.requests, self.errors = [], []
        try:
            targets = self.call("Target.getTargets")["targetInfos"]
        except EOFError:
            raise Skip("chromium does not start here")
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme",
                                                           "value": "dark" if dark else "light"}])

    def receive(self):
        end = time.time() + 60
        while b"\0" not in self.buffer:
            if not select.select([self.into], [], [], max(0, end - time.time()))[0]:
                raise AssertionError("the browser does not answer")
            more = os.read(self.into, 1 << 20)
            if not more:
                raise EOFError
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:2000])
        elif method == "Page.javascriptDialogOpening":
            self.errors.append("a dialog: " + params["message"])

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.note(answer)

    def eval(self, text):
        """The value of an expression in the page."""
        r = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in r, (text, r["exceptionDetails"])
        return r["result"].get("value")

    def until(self, text, seconds=60):
        end = time.time() + seconds
        while not self.eval(text):
            assert time.time() < end, (text, self.errors)
            time.sleep(0.02)

    def open(self, path, ready):
        """Seconds until the expression holds in the page."""
        begin = time.time()
        self.call("Page.navigate", url="file://" + path)
        self.until(ready)
        return time.time() - begin

    def frames(self):
        """Wait until what was asked for is drawn."""
        self.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y, times=1):
        for n in range(1, times + 1):
            self.mouse("mousePressed", x, y, button="left", clickCount=n)
            self.mouse("mouseReleased", x, y, button="left", clickCount=n)
        self.frames()

    def click_on(self, selector):
        at = self.eval("(() => { const b = document.querySelector(%s).getBoundingClientRect();"
                       " return [b.x + b.width / 2, b.y + b.height / 2]; })()" % json.dumps(selector))
        self.click(*at)

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.frames()

    def type(self, text):
        for c in text:
            self.key(c)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
