"""Contract: of those who claim a thread at once, one has it until it is given back."""
# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

import asyncio
import gc

from langgraph_async.testing.saver_contract.samples import Branch, Saver, at, id_of, listed, needs, new_thread


class ClaimContract:
    """Claiming threads; skipped for savers that do not offer it."""

    async def test_a_claimed_thread_cannot_be_claimed_again_until_it_is_given_back(self, saver: Saver) -> None:
        needs(saver, "aclaim")
        thread_id = new_thread()
        claim = await saver.aclaim(thread_id)

        assert claim is not None
        assert await saver.aclaim(thread_id) is None
        await claim.arelease()
        again = await saver.aclaim(thread_id)
        assert again is not None
        await again.arelease()

    async def test_a_copy_with_another_allowlist_respects_a_claim(self, saver: Saver) -> None:
        needs(saver, "aclaim")
        thread_id = new_thread()
        claim = await saver.aclaim(thread_id)

        assert claim is not None
        assert await saver.with_allowlist([Branch]).aclaim(thread_id) is None
        await claim.arelease()

    async def test_of_many_who_claim_a_thread_at_once_one_has_it(self, saver: Saver) -> None:
        needs(saver, "aclaim")
        thread_id = new_thread()
        claims = await asyncio.gather(*(saver.aclaim(thread_id) for _ in range(20)))
        won = [claim for claim in claims if claim is not None]

        assert len(won) == 1
        await won[0].arelease()

    async def test_claims_on_different_threads_do_not_know_each_other(self, saver: Saver) -> None:
        needs(saver, "aclaim")
        stem = new_thread()
        claims = await asyncio.gather(*(saver.aclaim(f"{stem}-{n}") for n in range(20)))

        assert None not in claims
        await asyncio.gather(*(claim.arelease() for claim in claims if claim is not None))

    async def test_giving_a_thread_back_twice_does_not_end_the_next_claim(self, saver: Saver) -> None:
        needs(saver, "aclaim")
        thread_id = new_thread()
        first = await saver.aclaim(thread_id)
        assert first is not None
        await first.arelease()
        second = await saver.aclaim(thread_id)
        assert second is not None
        await first.arelease()

        assert await saver.aclaim(thread_id) is None
        await second.arelease()

    async def test_any_text_can_name_a_claimed_thread(self, saver: Saver) -> None:
        needs(saver, "aclaim")
        for thread_id in (new_thread("a\0b"), new_thread("\ud800"), new_thread("x" * 5000), new_thread("'; %")):
            claim = await saver.aclaim(thread_id)

            assert claim is not None
            assert await saver.aclaim(thread_id) is None
            await claim.arelease()

    async def test_a_claim_is_nothing_that_is_stored(self, saver: Saver) -> None:
        needs(saver, "aclaim")
        thread_id = new_thread()
        claim = await saver.aclaim(thread_id)
        assert claim is not None

        assert await listed(saver, at(thread_id, None)) == []
        assert await saver.aget_tuple(at(thread_id)) is None
        await claim.arelease()
        assert await listed(saver, at(thread_id, None)) == []

    async def test_a_claimed_thread_can_be_read_and_stored_by_anybody(self, saver: Saver) -> None:
        needs(saver, "aclaim")
        branch = Branch(saver)
        claim = await saver.aclaim(branch.thread_id)
        assert claim is not None
        config = await branch.put(a=1)
        await branch.write(("a", 2))

        assert await listed(saver, at(branch.thread_id)) == [id_of(config)]
        await saver.adelete_thread(branch.thread_id)
        assert await saver.aclaim(branch.thread_id) is None
        await claim.arelease()

    async def test_a_cancelled_claim_is_none(self, saver: Saver) -> None:
        needs(saver, "aclaim")
        thread_id = new_thread()
        for turns in range(6):
            claiming = asyncio.ensure_future(saver.aclaim(thread_id))
            for _ in range(turns):
                await asyncio.sleep(0)
            claiming.cancel()
            done = (await asyncio.gather(claiming, return_exceptions=True))[0]
            if done is not None and not isinstance(done, BaseException):
                await done.arelease()  # it was claimed before it was cancelled
            claim = await saver.aclaim(thread_id)

            assert claim is not None
            await claim.arelease()

    async def test_a_dropped_claim_is_over(self, saver: Saver) -> None:
        needs(saver, "aclaim")
        thread_id = new_thread()
        claim = await saver.aclaim(thread_id)
        assert claim is not None
        del claim
        gc.collect()
        await asyncio.sleep(0)

        again = await saver.aclaim(thread_id)
        assert again is not None
        await again.arelease()
