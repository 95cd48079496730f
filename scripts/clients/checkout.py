"""Inserts a checkout, signals it and waits for its end, with the client that openapi-python-client generates.

Arguments: the address of the server, and a token.
"""

import sys

from outlast_client import AuthenticatedClient
from outlast_client.api.instances import get_instance, insert_instance, wait_for_instance
from outlast_client.api.signals import signal_instance
from outlast_client.models import DeliveryWord, Inserted, NewInstance, NewSignal, Problem, Status


def expect(answer, shape):
    """The answer, or the end of the program with the problem."""
    if isinstance(answer, Problem):
        sys.exit(f"{answer.code}: {answer.detail}")
    assert isinstance(answer, shape) if shape else answer, answer
    return answer


def main(address, token):
    client = AuthenticatedClient(base_url=address, token=token, timeout=40)
    new = NewInstance(machine="checkout", step="start", state={"order": 1, "amount": 50}, key="python")
    inserted = expect(insert_instance.sync(client=client, body=new), Inserted)
    assert inserted.created, inserted

    settled = expect(wait_for_instance.sync(inserted.id, client=client, until="settled"), None)
    assert settled.instance.status == Status.AWAITING_SIGNAL, settled

    paid = NewSignal(name="payment_confirmed", payload={"amount": 50}, dedup_key="payment-1")
    for expected in [DeliveryWord.DELIVERED, DeliveryWord.DUPLICATE]:
        sent = expect(signal_instance.sync(inserted.id, client=client, body=paid), None)
        assert sent.delivery == expected and sent.instance == inserted.id, sent

    ended = expect(wait_for_instance.sync(inserted.id, client=client), None)
    assert ended.reached and ended.instance.status == Status.DONE, ended
    assert ended.instance.result == "order 1 is on its way", ended

    missing = get_instance.sync("999999999", client=client)
    assert isinstance(missing, Problem) and missing.code == "not_found", missing


main(*sys.argv[1:])
