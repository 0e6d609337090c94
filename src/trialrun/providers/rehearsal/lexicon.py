"""The words of the rehearsal lane: word lists that fill the slots of `lines`, and the nouns that it recognises.

Every list holds phrases of one grammatical kind, so that any of them fits any slot of its name.
"""

from collections.abc import Mapping
from types import MappingProxyType


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().split("\n"))


WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # An adjective for an unpleasant state of mind: "I feel {feeling}".
        "feeling": _words(
            "tired uneasy ashamed restless numb anxious lonely irritated stuck torn embarrassed worried drained "
            "guarded overwhelmed small tense hurt sad confused nervous helpless exposed"
        ),
        # A noun for a state of mind: "there is some {mood} in it".
        "mood": _words(
            "worry relief anger sadness shame hope doubt pride fear tiredness tenderness regret longing"
        ),
        # A person, after "my" or "your".
        "relative": _words(
            "sister brother mother father partner friend colleague manager neighbour daughter son cousin flatmate aunt"
        ),
        # A thing of daily life, after "the".
        "thing": _words(
            "deadline letter meeting plan kitchen garden report job flat call argument invitation wedding exam bill "
            "trip diary house phone visit weekend conversation message promise birthday train holiday"
        ),
        # When something happened.
        "when": _phrases(
            """
            last week
            this morning
            on Sunday
            a few days ago
            the other night
            after work
            around the holidays
            earlier this month
            over dinner
            on the way home
            """
        ),
        # What somebody could do: a bare infinitive.
        "do": _phrases(
            """
            take a walk before answering
            write it down
            say no once
            sleep on it
            ask for help
            leave a little earlier
            keep the evening free
            tell one person the truth
            put the phone away
            make a short list
            start with ten minutes
            let the call go unanswered
            say what I actually want
            go back and apologise
            """
        ),
        # The same, said to somebody else.
        "step": _phrases(
            """
            notice the moment when it starts
            write down one sentence each evening
            tell one person about it
            try ten minutes and then stop
            leave the room before it gets loud
            say out loud what is missing
            keep a small promise to yourself
            wait a day before answering
            ask for exactly one thing
            note what went well
            """
        ),
        # A subject of public affairs, after "the".
        "matter": _words(
            "border ceasefire tariff harbour treaty grid budget coalition pipeline embargo inspection corridor mandate "
            "deadline alliance reserve strait shipment summit sanction election settlement port"
        ),
        # A move of a state or an organisation: a bare infinitive.
        "move": _phrases(
            """
            open a quiet channel
            call up part of the reserves
            wait for the inspectors
            offer a partial withdrawal
            brief the press before noon
            ask the council for three more days
            share the satellite images
            freeze the shipment
            propose a joint commission
            keep every ship in port
            reopen the corridor for food and medicine
            put the offer in writing
            """
        ),
        # One side among others.
        "side": _phrases(
            """
            the other side
            our partners
            the neighbours
            the council
            the smaller parties
            the generals
            the markets
            the public at home
            """
        ),
        # What somebody stands for.
        "value": _words(
            "honesty safety fairness trust loyalty privacy care duty dignity openness stability mercy consent"
        ),
        # Whom a decision touches.
        "people": _phrases(
            """
            the residents
            the people who depend on it
            those who were never asked
            the families
            the operators on duty
            the next shift
            the workers
            everyone downstream
            """
        ),
        # A part of a program, after "the".
        "part": _words(
            "parser cache queue index handler loop config test fixture schema buffer client scheduler lock module"
        ),
        # A change to a program: a bare infinitive.
        "fix": _phrases(
            """
            add a guard for the empty case
            close the handle in a finally block
            move the check before the write
            return early when nothing changed
            compare with a tolerance
            sort the keys first
            replace the shared default
            cover it with a test that fails today
            pass the clock in as an argument
            """
        ),
        # A term of a deal, after "the".
        "term": _words(
            "deposit warranty delivery price discount deadline rent volume schedule notice penalty bonus salary"
        ),
        # A condition of a deal: "if you {grant}".
        "grant": _phrases(
            """
            pay within ten days
            sign this week
            take the larger volume
            cover the delivery
            drop the penalty
            keep the notice at three months
            extend the warranty
            leave the deposit as it is
            """
        ),
        # How a text reads.
        "quality": _words(
            "consistent evasive clear hesitant open careful one-sided balanced vague specific candid guarded"
        ),
        # An adverb of degree or frequency before a verb.
        "often": _words("often sometimes usually rarely mostly"),
        # A proper name, as a subject or an object.
        "name": _words("Mara Ivo Lena Tomas Ruth Amir Noor Pavel Ines Kofi Hana Luca Sofia Emil Yara Oskar"),
        # A place, with its preposition.
        "place": _phrases(
            """
            at the station
            in the kitchen
            by the harbour
            in the corridor
            at the market
            on the bridge
            in the library
            near the gate
            at the edge of town
            in the control room
            """
        ),
        # A field of knowledge or of life, without an article.
        "field": _words(
            "training planning teaching cooking gardening medicine design research farming law engineering"
        ),
        # A small count.
        "count": _words("two three four five six"),
    }
)

NOUNS: frozenset[str] = frozenset(
    word for name in ("relative", "thing", "matter", "value", "part", "term", "mood") for word in WORDS[name]
) | frozenset(
    _words(
        """
        account advice agreement animal answer apology apartment army article attention audience baby bank
        battle beach bed body bonus book boss bottle box boy breakfast bridge building bus business camera car
        career cat chair chance change child children choice church city class client climate clock coffee
        college company computer concern conflict contract control cost country couple course cousin crew
        crisis customer dance danger data database date day death debt decision demand desk dilemma dinner
        disease doctor dog door doubt dream drug duty economy email emergency emotion energy engineer error
        evening event evidence exercise experience experiment failure family farm fault feeling fence field
        file film fire fish fleet food football force forest function future game girl goal government grade
        grief group guest guilt habit hand head heart history home hospital hotel hour husband idea illness
        incident income information interest interview island journey judge kid king knowledge language law
        lawyer leader lesson library lie life light list loss love lunch machine market marriage medicine
        memory mind mistake model moment money month morning mountain music nation negotiation neighbourhood
        network newspaper night noise number nurse ocean offer office option order pain panic paper parent
        parents party past patient payment peace picture place planet plant policy power practice pressure
        prison problem product program progress project proof proposal protest question rain reactor reason
        recipe refund relationship request research resource rest result retry risk river road role room rule
        salary sample school science screen sea season secret secretary security server session share ship
        shop sickness signal silence sister situation skill sleep snow society software soldier song space
        speech sport staff stage statement station steward stock storm story stranger street stress student
        study subject sugar summer sun supplier support surgery system table tank task tax teacher team
        technology temper temperature tenant tension term theory therapist therapy threat ticket time town
        trade tradition trauma treatment tree trial trouble truck truth university user vaccine value village
        violence voice vote walk wall war water weapon weather website wife winter witness woman work
        worker world year youth
        """
    )
)

COMMON_WORDS: frozenset[str] = frozenset(
    _words(
        """
        about above after again against almost alone along already also although always among another anyone
        anything around asked asks away back because become been before began begin behind being below between
        both bring brought call came cannot come could dear describe didn does doesn doing done down each
        either else enough even ever every everyone everything explain feel feels felt find first following
        from gave gets give given goes going good great have having hello help here herself himself into isn
        itself just keep kept kind know known least less like likely little look looked made make makes many
        maybe mean might more most much must myself near need needs neither never nobody none nothing often
        once only other others ours ourselves over perhaps please quite rather ready really reply respond
        right said same says seem seems seen shall should since some somebody someone something sometimes soon
        still such sure take taken tell than thank thanks that their them themselves then there these they
        thing things think this those though thought through today together told tomorrow took toward tried
        trying under until upon used using very want wants wasn well went were what whatever when where
        whether which while whole whom whose will with within without would write wrong yesterday your yours
        yourself
        """
    )
)
