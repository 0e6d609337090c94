"""Batch prediction jobs and their buckets: Google's SDK and google-auth hold the emulator to what they expect."""

import json
import warnings
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.emulator.batch_support import emulator, ids
from trialrun.providers.vertex import DefaultCredentials
from trialrun.testing.emulator import Emulator

with warnings.catch_warnings():
    # Its own source has escapes that Python warns of when it compiles them.
    warnings.simplefilter("ignore")
    import google.auth.transport.requests
    from google import genai
    from google.genai import errors, types
    from google.oauth2 import service_account

pytestmark = pytest.mark.filterwarnings(
    "ignore:Inheritance class:DeprecationWarning", "ignore:.*is not a valid JobState"
)
MODEL = "gemini-2.5-flash"
PRICES = {"vertex/*": {"input": "10", "output": "100"}}
INPUT = "gs://lab/in/requests.jsonl"
NAMED = "publishers/google/models/gemini-2.5-flash"


class Client:
    """The SDK with application default credentials, for the time of a test."""

    def __init__(self, server: Emulator, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        file = folder / "adc.json"
        file.write_text(json.dumps(server.credentials()))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        options = types.HttpOptions(base_url=server.base_url("vertex"))
        self._client = genai.Client(
            vertexai=True, project="lab", location="us-central1", http_options=options
        )

    async def __aenter__(self) -> Any:
        return self._client.aio

    async def __aexit__(self, *_: object) -> None:
        await self._client.aio.aclose()


def row(number: int, name: str, **more: Any) -> bytes:
    contents = [{"role": "user", "parts": [{"text": f"Hello, number {number}."}]}]
    request = {"contents": contents, "generationConfig": {"maxOutputTokens": 60, **more}}
    return json.dumps({"custom_id": name, "request": request}).encode() + b"\n"


def rows(count: int) -> bytes:
    return b"".join(row(number, name) for number, name in enumerate(ids(count)))


class Shelf:
    """Cloud Storage as its JSON API is spoken without any library."""

    def __init__(self, server: Emulator, key: str = "t") -> None:
        self.url = server.url
        self._headers = {"authorization": f"Bearer {key}"}

    async def ask(self, method: str, path: str, data: bytes = b"", **headers: str) -> tuple[int, Any, bytes]:
        async with (
            aiohttp.ClientSession(headers=self._headers) as session,
            session.request(method, f"{self.url}/{path}", data=data, headers=headers) as reply,
        ):
            return reply.status, reply.headers, await reply.read()

    async def put(self, name: str, content: bytes) -> None:
        path = f"upload/storage/v1/b/lab/o?uploadType=media&name={name}"
        status, _, _ = await self.ask("POST", path, content)
        assert status == 200

    async def names(self, query: str = "") -> dict[str, Any]:
        return json.loads((await self.ask("GET", f"storage/v1/b/lab/o{query}"))[2])

    async def read(self, address: str) -> list[dict[str, Any]]:
        """The rows of all objects under an address."""
        prefix = address.removeprefix("gs://lab/")
        found: list[dict[str, Any]] = []
        for item in (await self.names(f"?prefix={prefix}")).get("items", ()):
            path = f"storage/v1/b/lab/o/{item['name'].replace('/', '%2F')}?alt=media"
            found += [json.loads(line) for line in (await self.ask("GET", path))[2].splitlines()]
        return found


async def begin(client: Any, shelf: Shelf, content: bytes, *, to: str = "gs://lab/out") -> Any:
    await shelf.put("in/requests.jsonl", content)
    return await client.batches.create(model=MODEL, src=INPUT, config={"display_name": "mine", "dest": to})


@pytest.fixture
def to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    return lambda server: Client(server, monkeypatch, tmp_path)


async def test_a_job_goes_from_one_folder_of_a_bucket_to_another(to: Any):
    async with emulator(prices=PRICES) as server, to(server) as client:
        shelf = Shelf(server)
        job = await begin(client, shelf, rows(5))
        assert job.name.startswith("projects/lab/locations/us-central1/batchPredictionJobs/")
        assert (job.state, job.display_name, job.model) == ("JOB_STATE_QUEUED", "mine", NAMED)
        states = [job.state]
        for _ in range(16):
            await server.wind(10)
            states.append((await client.batches.get(name=job.name)).state)
        assert [*dict.fromkeys(states)] == [
            "JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED",
        ]  # fmt: skip
        done = await client.batches.get(name=job.name)
        assert (done.end_time - done.create_time).total_seconds() == pytest.approx(130)
        assert (done.completion_stats.successful_count, done.completion_stats.failed_count) == (5, 0)
        found = await shelf.read("gs://lab/out/prediction-model-")
        assert {line["custom_id"] for line in found} == set(ids(5))
        assert [line["custom_id"] for line in found] != ids(5)
        for line in found:
            assert line["status"] == ""
            assert types.GenerateContentResponse.model_validate(line["response"]).text
        names = [item["name"] for item in (await shelf.names("?prefix=out/"))["items"]]
        assert [name.rpartition("/")[2] for name in names] == [
            "predictions_00001.jsonl", "predictions_00002.jsonl",
        ]  # fmt: skip
        assert {(entry.lane, entry.provider) for entry in server.book} == {("batch", "vertex")}
        half = sum(e.usage.tokens_in * 5 + e.usage.tokens_out * 50 for e in server.book if e.usage)
        assert server.book.billed_usd * 1_000_000 == half > 0


async def test_jobs_are_listed_found_cancelled_and_deleted(to: Any):
    async with emulator() as server, to(server) as client:
        shelf = Shelf(server)
        first = await begin(client, shelf, rows(10))
        second = await begin(client, shelf, rows(2), to="gs://lab/other")
        assert [job.name async for job in await client.batches.list()] == [second.name, first.name]
        found = await client.batches.list(
            config={"filter": 'displayName="mine" AND state="JOB_STATE_FAILED"'}
        )
        assert [job.name async for job in found] == []
        await server.wind(70)
        await client.batches.cancel(name=first.name)
        assert (await client.batches.get(name=first.name)).state == "JOB_STATE_CANCELLING"
        await server.wind(100)
        ended = await client.batches.get(name=first.name)
        assert ended.state == "JOB_STATE_CANCELLED"
        done = ended.completion_stats
        assert 0 < done.successful_count < 10
        assert done.successful_count + done.incomplete_count == 10
        assert len(await shelf.read("gs://lab/out")) == done.successful_count, "what is done is exported"
        with pytest.raises(errors.ClientError):
            await client.batches.cancel(name=first.name)
        await client.batches.delete(name=first.name)
        with pytest.raises(errors.ClientError) as caught:
            await client.batches.get(name=first.name)
        assert caught.value.code == 404


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b'{"custom_id":"a"}\n', "row 6"),
        (row(9, "a", responseJsonSchema={"$schema": "x", "type": "object"}), "`$schema`"),
        (row(9, "a", responseJsonSchema={"enum": ["yes", 1]}), "both text and a number"),
        (row(9, "a", responseJsonSchema={"type": "object", "properties": {}}), "empty object"),
    ],
)
async def test_one_row_that_cannot_be_imported_fails_the_whole_job_late(to: Any, bad: bytes, why: str):
    async with emulator() as server, to(server) as client:
        job = await begin(client, Shelf(server), rows(5) + bad)
        assert job.error is None
        await server.wind(200)
        failed = await client.batches.get(name=job.name)
        assert failed.state == "JOB_STATE_FAILED"
        assert why in failed.error.message
        assert not server.book.entries


async def test_a_bucket_that_nobody_may_write_to_is_found_out_after_the_work(to: Any):
    async with emulator({"fault": "forbidden_output"}) as server, to(server) as client:
        job = await begin(client, Shelf(server), rows(3))
        await server.wind(60)
        assert (await client.batches.get(name=job.name)).state == "JOB_STATE_RUNNING"
        await server.wind(100)
        failed = await client.batches.get(name=job.name)
        assert failed.state == "JOB_STATE_FAILED"
        assert "storage.objects.create" in failed.error.message
        assert failed.dest.gcs_uri == "gs://lab/out"
        assert not server.book.billed_usd


async def test_an_input_that_is_not_there_fails_the_job_too(to: Any):
    async with emulator() as server, to(server) as client:
        job = await client.batches.create(
            model=MODEL, src="gs://lab/nothing.jsonl", config={"dest": "gs://lab/o"}
        )
        await server.wind(200)
        failed = await client.batches.get(name=job.name)
        assert (failed.state, failed.error.code) == ("JOB_STATE_FAILED", 3)


async def test_failed_rows_say_so_themselves_and_numbers_lose_their_zeros(to: Any):
    fault = {"at": "line", "fault": "refused", "nth": [2], "message": "no such voice"}
    async with emulator(fault, batches={"in_order": True, "shards": 1}) as server, to(server) as client:
        shelf = Shelf(server)
        await begin(client, shelf, row(1, "000") + row(2, "b") + row(3, "c"))
        await server.wind(200)
        first, second, third = await shelf.read("gs://lab/out")
        assert first["custom_id"] == 0, "a column of digits is taken for numbers"
        assert (second["response"], third["status"]) == ({}, "")
        assert "no such voice" in second["status"]


async def test_two_jobs_of_one_moment_with_one_prefix_write_over_each_other(to: Any):
    async with emulator(batches={"shards": 1}) as server, to(server) as client:
        shelf = Shelf(server)
        await begin(client, shelf, rows(3))
        await begin(client, shelf, rows(2))
        await server.wind(200)
        assert len(server.book.entries) == 5
        assert len(await shelf.read("gs://lab/out")) < 5


async def test_objects_are_written_in_pieces_and_read_in_parts():
    async with emulator() as server:
        shelf, content = Shelf(server), bytes(range(256)) * 3000
        start = "upload/storage/v1/b/lab/o?uploadType=resumable&name=deep/er/file.bin"
        status, headers, _ = await shelf.ask("POST", start, b'{"contentType": "video/mp4"}')
        assert status == 200
        where = headers["location"].removeprefix(f"{server.url}/")
        half = 262_144
        total = len(content)

        async def piece(data: bytes, range_: str) -> tuple[int, Any, bytes]:
            return await shelf.ask("PUT", where, data, **{"content-range": range_})

        status, headers, _ = await piece(content[:half], f"bytes 0-{half - 1}/{total}")
        assert (status, headers["range"]) == (308, f"bytes=0-{half - 1}")
        status, headers, _ = await piece(b"", f"bytes */{total}")
        assert (status, headers["range"]) == (308, f"bytes=0-{half - 1}"), "how much is here"
        status, _, _ = await piece(content[half + 5 :], f"bytes {half + 5}-{total - 1}/{total}")
        assert status == 400, "a gap"
        status, _, body = await piece(content[half:], f"bytes {half}-{total - 1}/{total}")
        told = json.loads(body)
        assert (status, told["size"], told["contentType"]) == (200, str(total), "video/mp4")

        path = "storage/v1/b/lab/o/deep%2Fer%2Ffile.bin"
        assert (await shelf.ask("GET", f"{path}?alt=media"))[2] == content
        status, headers, body = await shelf.ask("GET", f"download/{path}?alt=media", Range="bytes=100-199")
        assert (status, body) == (206, content[100:200])
        assert headers["content-range"] == f"bytes 100-199/{total}"
        assert (await shelf.ask("GET", f"{path}?alt=media", Range="bytes=-7"))[2] == content[-7:]
        assert (await shelf.ask("GET", f"{path}?alt=media", Range=f"bytes={total}-"))[0] == 416
        listed = await shelf.names("?delimiter=/")
        assert listed["prefixes"] == ["deep/"]
        assert "items" not in listed
        assert (await shelf.ask("DELETE", path))[0] == 204
        assert (await shelf.ask("GET", path))[0] == 404


async def test_an_object_in_two_parts_and_only_if_it_is_new():
    async with emulator() as server:
        shelf = Shelf(server)
        body = (
            b"--x\r\nContent-Type: application/json\r\n\r\n" + b'{"name": "a/b", "contentType": "text/plain"}'
            b"\r\n--x\r\nContent-Type: */*\r\n\r\n" + b"the content\r\n--x--\r\n"
        )
        path = "upload/storage/v1/b/lab/o?uploadType=multipart&ifGenerationMatch=0"
        kind = {"content-type": "multipart/related; boundary=x"}
        status, _, told = await shelf.ask("POST", path, body, **kind)
        assert status == 200
        assert json.loads(told)["contentType"] == "text/plain"
        assert (await shelf.ask("GET", "storage/v1/b/lab/o/a%2Fb?alt=media"))[2] == b"the content"
        assert (await shelf.ask("POST", path, body, **kind))[0] == 412
        assert json.loads((await shelf.ask("GET", "storage/v1/b/lab"))[2])["name"] == "lab"


async def test_each_key_has_its_own_buckets_and_lists_have_pages():
    async with emulator(keys={"ann": "k-ann", "bo": "k-bo"}) as server:
        ann, bo = Shelf(server, "k-ann"), Shelf(server, "k-bo")
        for number in range(5):
            await ann.put(f"f{number}", b"x")
        page = await ann.names("?maxResults=2")
        assert [item["name"] for item in page["items"]] == ["f0", "f1"]
        rest = await ann.names(f"?maxResults=9&pageToken={page['nextPageToken']}")
        assert [item["name"] for item in rest["items"]] == ["f2", "f3", "f4"]
        assert "items" not in await bo.names()
        assert (await Shelf(server, "k-eve").ask("GET", "storage/v1/b/lab/o"))[0] == 401


async def test_google_auth_gets_the_token_of_the_scripts_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    async with emulator(keys={"ann": "k-ann"}) as server:
        file = tmp_path / "adc.json"
        file.write_text(json.dumps(server.credentials()))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        assert (await DefaultCredentials().current()).reveal() == "k-ann"
        shown = json.loads((await Shelf(server).ask("GET", "__credentials"))[2])
        assert shown == server.credentials()
        status, _, told = await Shelf(server).ask("POST", "vertex/token", b"grant_type=password")
        assert (status, json.loads(told)["error"]) == (400, "unsupported_grant_type")


async def test_a_service_account_gets_a_token_too():
    from asyncio import to_thread

    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    private = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    async with emulator() as server:
        info = {
            "type": "service_account",
            "client_email": "runner@lab.example",
            "private_key": private.decode(),
            "token_uri": f"{server.url}/vertex/token",
        }
        made = service_account.Credentials.from_service_account_info(info, scopes=["x"])
        await to_thread(made.refresh, google.auth.transport.requests.Request())
        assert made.token == "emulated-key"
