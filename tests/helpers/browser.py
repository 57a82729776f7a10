"""Chromium without a window, driven over a pipe by the DevTools protocol; nothing to install.

The protocol is documented at https://chromedevtools.github.io/devtools-protocol/.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
#: Seconds to wait for an answer, on a machine that has other things to do.
PATIENCE = 120.0


class Tab:
    """A page of the browser.

    Attributes
    ----------
    problems : list of str
        Errors and warnings of the console, and exceptions, so far.
    requests : list of str
        Addresses that were asked for so far.
    """

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._number, self._rest, self._session = 0, b"", ""
        self._answers: dict[int, dict[str, Any]] = {}
        self._happened: list[str] = []
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        sent: dict[str, Any] = {"id": self._number, "method": method, "params": values}
        if self._session:
            sent["sessionId"] = self._session
        os.write(self._write, json.dumps(sent).encode() + b"\0")
        self._until(lambda: self._number in self._answers, method)
        answer = self._answers.pop(self._number)
        assert "error" not in answer, f"{method}: {answer.get('error')}"
        return answer["result"]

    def open(self, path: Path) -> None:
        """Load a file."""
        self._happened.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self._until(lambda: "Page.loadEventFired" in self._happened, str(path))

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, or what its promise comes to."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def width(self, pixels: int, height: int = 900) -> None:
        """Of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=pixels, height=height, deviceScaleFactor=1, mobile=pixels < 600,
        )  # fmt: skip

    def prefers(self, scheme: str) -> None:
        """What the reader's system is set to: ``'light'`` or ``'dark'``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of an element."""
        at = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', inline: 'center'});"
            "const b = e.getBoundingClientRect();"
            "return {x: b.x + b.width / 2, y: b.y + b.height / 2}; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def press(self, key: str) -> None:
        """A key of the keyboard: ``'Enter'`` or ``'Tab'``."""
        code = {"Enter": 13, "Tab": 9}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=code, **(text if kind == "keyDown" else {}),
            )  # fmt: skip

    def print(self, path: Path) -> None:
        """As a PDF file."""
        found = self.call(
            "Page.printToPDF", preferCSSPageSize=True, paperWidth=8.27, paperHeight=11.69
        )
        path.write_bytes(base64.b64decode(found["data"]))

    def _until(self, reached: Any, what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not reached():
            ready, _, _ = select.select([self._read], [], [], max(0, end - time.monotonic()))
            assert ready, f"Chromium did not answer to {what} in {PATIENCE:g} s."
            got = os.read(self._read, 1 << 20)
            assert got, f"Chromium ended while it was asked for {what}."
            *messages, self._rest = (self._rest + got).split(b"\0")
            for message in messages:
                self._take(json.loads(message))

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
            return
        method, values = message["method"], message["params"]
        self._happened.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(values["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.problems.append(values["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning"):
            self.problems.append(json.dumps(values["args"]))


@contextmanager
def browser() -> Iterator[Tab]:
    """A fresh browser with one tab."""
    assert CHROMIUM is not None
    to_read, to_write = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # Chromium reads commands from descriptor 3 and answers on 4. A shell puts them there,
        # by descriptors beyond: the pipe's own may be 3 or 4.
        script = 'exec 8<&"$0" 9>&"$1"; shift; exec 3<&8 4>&9 8<&- 9>&-; exec "$@"'
        process = subprocess.Popen(
            ["bash", "-c", script, str(to_read[0]), str(to_write[1]),
             CHROMIUM, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(to_read[0], to_write[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read[0])
        os.close(to_write[1])
        try:
            yield Tab(to_write[0], to_read[1])
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(to_read[1])
            os.close(to_write[0])
