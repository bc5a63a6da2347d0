"""Drives a run with the `websockets` package: next, skip, rollback and history, with two watchers beside it.

Arguments: port, token, token for watching. Prints "done" when everything was as it should be.
"""
import asyncio
import itertools
import json
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

PORT, TOKEN, WATCHING = sys.argv[1:4]
URL = f"ws://127.0.0.1:{PORT}/ws"
NUMBERS = itertools.count(1)


def merge(target, patch):
    """Applies a merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merge(target.get(key), value)
    return target


class Client:
    """One connection and everything that was heard over it."""

    def __init__(self, socket):
        self.socket = socket
        self.heard = []

    async def until(self, wanted):
        while True:
            message = json.loads(await asyncio.wait_for(self.socket.recv(), 30))
            self.heard.append(message)
            if wanted(message):
                return message

    async def type(self, name):
        return await self.until(lambda message: message["type"] == name)

    async def say(self, message):
        await self.socket.send(json.dumps(message))

    async def command(self, name, data=None):
        number = f"py-{next(NUMBERS)}"
        await self.say({"id": number, "type": name, "data": data})
        return await self.until(lambda message: message.get("commandId") == number)

    async def idle(self, reason):
        return await self.until(
            lambda message: message["type"] == "server.idle" and message["data"]["reason"] == reason
        )

    async def view(self, wanted):
        """Follows the view of the run by its patches until it is the wanted one."""
        view = None
        while view is None or not wanted(view):
            message = await self.until(lambda message: message["type"] in ("view", "view.patch"))
            if message["type"] == "view":
                view = message["data"]["view"]
            else:
                assert message["data"]["from"] == view["seq"], message
                view = merge(view, message["data"]["patch"])
        return view

    async def view_once(self):
        return (await self.command("view.get"))["data"]["view"]

    def numbers(self):
        return [message["seq"] for message in self.heard if "seq" in message]


async def enter(token, mode, by_protocol=False):
    if by_protocol:
        socket = await connect(URL, subprotocols=["hankweave", f"bearer.{token}"])
        assert socket.subprotocol == "hankweave", socket.subprotocol
    else:
        socket = await connect(URL, additional_headers={"Authorization": f"Bearer {token}"})
    client = Client(socket)
    await client.say({"type": "handshake", "data": {"mode": mode, "afterSeq": 0}})
    await client.type("handshake.response")
    return client


async def watch_view():
    socket = await connect(URL, additional_headers={"Authorization": f"Bearer {WATCHING}"})
    client = Client(socket)
    await client.say({"type": "handshake", "data": {"mode": "readonly", "view": True, "events": False}})
    await client.type("handshake.response")
    return client


async def refused(status, **options):
    try:
        await connect(URL, **options)
    except InvalidStatus as error:
        assert error.response.status_code == status, error
    else:
        raise AssertionError("somebody came in who must not")


async def main():
    await refused(401)
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    await refused(403, additional_headers=bearer, origin="http://evil.example")
    driver = await enter(TOKEN, "readandwrite")
    watchers = [await enter(WATCHING, "readandwrite", by_protocol=True), await enter(TOKEN, "readonly")]
    for watcher in watchers:
        answer = await watcher.command("codon.next")
        assert answer["data"]["code"] == "INSUFFICIENT_PERMISSIONS", answer

    await driver.idle("startup")
    viewer = await watch_view()

    def undone(view):
        first = view["items"]["a"].get("attempts", {})
        return first.get("1.1", {}).get("state") == "completed" and any(
            command["command"] == "rollback.toCodon" for command in view.get("commands", {}).values()
        ) and "attempts" not in view["items"]["b"]

    followed = asyncio.create_task(viewer.view(undone))
    assert (await driver.command("codon.next"))["data"]["outcome"] == "starting"
    await driver.idle("codon-completed")
    ended = await driver.view_once()
    checkpoint = ended["items"]["a"]["attempts"]["1.1"]["checkpoint"]
    files = await watchers[0].command("diff.files", {"to": checkpoint})
    assert [file["path"] for file in files["data"]["files"]] == ["done.txt"], files
    lines = await watchers[0].command("diff.lines", {"to": checkpoint, "path": "done.txt", "offset": 1, "limit": 1})
    assert lines["data"]["lines"] == [{"kind": "+", "new": 1, "text": "one"}], lines
    assert lines["data"]["count"] == 2, lines
    await driver.command("codon.next")
    await driver.type("codon.started")
    assert (await driver.command("codon.skip"))["data"]["outcome"] == "stopping"
    await driver.idle("all-codons-completed")
    back = await driver.command("rollback.toCodon", {"codonId": "a", "checkpointType": "end"})
    assert back["data"]["outcome"] == "rolled-back", back
    await driver.idle("rollback-completed")
    await followed
    assert viewer.numbers() == [], "it wanted no events"

    number = "py-history"
    await driver.say({"id": number, "type": "history.sync"})
    history = []
    while True:
        batch = await driver.type("history.batch")
        history += batch["data"]["events"]
        if not batch["data"]["hasMore"]:
            break
    assert [event["seq"] for event in history] == driver.numbers(), "the history is what was heard"
    for watcher in watchers:
        await watcher.idle("rollback-completed")
        assert watcher.numbers() == driver.numbers(), "everybody hears the same"
    await driver.command("server.shutdown")
    await asyncio.gather(*(client.socket.wait_closed() for client in [driver, viewer, *watchers]))
    assert driver.socket.close_code == 1001, driver.socket.close_code
    print("done")


asyncio.run(main())
