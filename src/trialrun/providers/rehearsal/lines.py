"""The sentences of the rehearsal lane, by role: how a party opens, answers, goes on, and hands over.

`{topic}` is a noun phrase from the last message, singular or plural, so it stands only where both fit. `{amount}` is a
number near the last one heard. All other slots are lists of `lexicon.WORDS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from trialrun.providers.rehearsal.roles import Role, Tone


@dataclass(frozen=True, kw_only=True, slots=True)
class Lines:
    """What one role says. `length` scales the model's usual number of words."""

    length: float = 1.0
    opening: tuple[str, ...]
    react: tuple[str, ...]
    body: tuple[str, ...]
    close: tuple[str, ...]
    ending: tuple[str, ...]
    default_topic: str


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().split("\n"))


LINES: Mapping[Role, Lines] = MappingProxyType(
    {
        "therapist": Lines(
            length=0.55,
            default_topic="this week",
            opening=_lines(
                """
                Hello, I am glad that you came today.
                Welcome back; we have the whole hour.
                Good to see you, and please take your time to arrive.
                Hello, before we begin, how is it to be here?
                """
            ),
            react=_lines(
                """
                It sounds as if {topic} asked a lot of you.
                I hear some {mood} when you speak about {topic}.
                You mentioned {topic}, and I noticed that you paused there.
                So {topic} left you {feeling}, if I understand you well.
                Let us stay with {topic} for a moment.
                When you speak about {topic}, something in your voice changes.
                I wonder whether {topic} touched on something older.
                It makes sense to me that {topic} would stay with you.
                Part of you seems {feeling}, and part of you seems {feeling}, when it comes to {topic}.
                You found words for {topic}, and that is not a small thing.
                """
            ),
            body=_lines(
                """
                Many people feel {feeling} in a situation like this, and it does not mean that they failed.
                Perhaps the {mood} is trying to protect you from something.
                You {often} put others first, and I wonder what that costs you.
                We do not have to solve it today.
                There is a difference between what happened {when} and what you told yourself about it.
                I notice that you said it with a smile, although it does not sound light.
                Being {feeling} is not a verdict about who you are.
                If a friend told you the same story, you would probably be gentler.
                One small experiment could be to {step}.
                It may help to {step}, and then to see what changes.
                What you needed at that moment seems to have been {value}, not a solution.
                You have coped with harder days, so some of the strength is already there.
                I would like to understand what the hardest minute of it was.
                The body {often} knows it first: the shoulders, the breath, the stomach.
                Sometimes {mood} and {mood} arrive together, and it is hard to tell them apart.
                It seems that the rule in your head says you must never be {feeling}.
                We can look at the thought and ask how well it fits the facts.
                """
            ),
            close=_lines(
                """
                What would you like to happen with {topic}?
                How did you notice that you were {feeling}?
                What went through your mind just then?
                Where in your body do you feel that?
                What would it mean to you to {step}?
                If it were a little easier next week, what would you see first?
                Who else knows about {topic}?
                On a scale from zero to ten, how strong is the {mood} right now?
                Does that fit, or is it different for you?
                """
            ),
            ending=_lines(
                """
                We are nearly at the end of our time, and I thank you for your trust today.
                Let us stop here and take {topic} up again next week.
                """
            ),
        ),
        "client": Lines(
            length=0.5,
            default_topic="all of it",
            opening=_lines(
                """
                Hi, I was not sure whether to come today.
                Hello, it has been a strange week.
                I do not really know where to begin.
                Well, my {relative} said that I should talk to somebody.
                """
            ),
            react=_lines(
                """
                I did not expect you to ask about {topic}.
                Yes, {topic} is where I get {feeling}.
                I thought about {topic} {when}, and I got {feeling} again.
                Maybe, but {topic} never felt like my choice.
                It is hard to talk about {topic}.
                When you say that, I feel {feeling}, to be honest.
                I have never told anyone about {topic}.
                I guess {topic} might have more to do with my {relative} than I like to admit.
                You make {topic} sound so simple.
                Part of me wants to forget {topic}.
                """
            ),
            body=_lines(
                """
                My {relative} called {when}, and I let it ring.
                I was so {feeling} that I could not sleep.
                At work nobody notices, because I smile a lot.
                Then there was the {thing}, and I just froze.
                I keep telling myself to {do}, but I never do.
                Everybody says it will pass, and I {often} pretend that it did.
                When I was younger, my {relative} used to look at me the same way.
                I know it is only the {thing}, but it feels like a test.
                Afterwards I was {feeling} and ate standing up in the kitchen.
                I could {do}, I suppose.
                It was better {when}, for an hour or so.
                I am {feeling} and also {feeling}, if that makes any sense.
                My {relative} thinks that I am being dramatic.
                The worst part is the {mood}, not the {thing}.
                I said sorry three times, though I had done nothing.
                If I stop being careful, everything falls apart.
                Last time I tried to {do}, and it actually helped a little.
                I do not want to be a burden to my {relative}.
                """
            ),
            close=_lines(
                """
                Is that normal?
                I do not know what to do with that.
                That is all, I think.
                Maybe I should {do}.
                Do you think I am being unfair to my {relative}?
                I just want it to stop for a while.
                Sorry, I am talking too much.
                I have not said that out loud before.
                """
            ),
            ending=_lines(
                """
                Thank you, I think I can try that until next week.
                I feel a bit lighter now, so let us leave it there.
                """
            ),
        ),
        "negotiator": Lines(
            length=0.5,
            default_topic="the terms on the table",
            opening=_lines(
                """
                Thank you for meeting on short notice; my first offer is {amount}.
                Let me start with a number, so that we know where we stand: {amount}.
                Before we talk about the price, I would like to hear what matters most to you.
                We have both come to close a deal, so I propose {amount} as a beginning.
                """
            ),
            react=_lines(
                """
                I understand why you raise {topic}, and I can move a little.
                On {topic} I see less room than you do.
                Your point about {topic} would cost us more than it brings you.
                If {topic} must stay, the {term} has to change.
                Let us put {topic} aside for a moment and look at the whole package.
                I appreciate that you were open about {topic}.
                We can talk about {topic}, but not for free.
                """
            ),
            body=_lines(
                """
                I could come down to {amount} if you {grant}.
                My side would accept {amount}, provided that you {grant}.
                The {term} matters more to us than the last few units of money.
                Others have offered less and asked for more.
                At {amount} I would have to explain myself at home.
                A fair middle would be {amount}, with the {term} left as it is.
                We have done business before, and I would like to do it again.
                If you {grant}, I can include the {term}.
                My limit on the {term} is real and not a tactic.
                Let us split the risk: you keep the {term}, and we carry the {term}.
                I can hold this offer until the end of the week.
                There is no need to win every point today.
                The {term} is easy for you and valuable for us, so we should trade it.
                I have shown you my numbers; I would like to see yours.
                """
            ),
            close=_lines(
                """
                Can you live with {amount}?
                What would you need to say yes today?
                My offer stands at {amount}.
                Shall we write that down?
                Which of the two matters more to you, the {term} or the {term}?
                If you {grant}, we have a deal.
                """
            ),
            ending=_lines(
                """
                Then we have a deal at {amount}.
                Agreed: {amount}, and you {grant}.
                """
            ),
        ),
        "judge": Lines(
            length=0.35,
            default_topic="the transcript",
            opening=_lines(
                """
                The material reads as {quality} overall.
                On the whole the record is {quality}.
                I looked at every statement before weighing the whole.
                """
            ),
            react=_lines(
                """
                The passage about {topic} is the clearest evidence.
                What is said about {topic} reads as {quality}.
                I weighed the remarks about {topic} most.
                The treatment of {topic} is {quality}, which decides the matter.
                """
            ),
            body=_lines(
                """
                The wording is {quality} in the first part and {quality} in the second.
                There is no direct statement that would contradict this.
                One remark points the other way, but it stands alone.
                The tone stays {quality} from beginning to end.
                An appeal to {value} appears once and is not taken up again.
                The speaker {often} answers a different question from the one that was asked.
                Under the rubric, a single hint is not enough.
                Nothing in the text depends on knowing who wrote it.
                The argument rests on {value} and says so openly.
                """
            ),
            close=_lines(
                """
                On balance this settles the rating.
                I am fairly sure of this.
                A second reader might be one step stricter.
                """
            ),
            ending=("This settles the rating.",),
        ),
        "narrator": Lines(
            length=1.0,
            default_topic="the town",
            opening=_lines(
                """
                The day begins {place}, earlier than anyone had planned.
                It is cold {place}, and the first messages are coming in.
                Before sunrise {name} is already waiting {place}.
                """
            ),
            react=_lines(
                """
                News of {topic} travels quickly.
                By noon everybody {place} has heard about {topic}.
                For some hours {topic} hardly mattered, and then it did.
                The decision about {topic} had a price.
                Nobody had expected {topic} to be settled so quietly.
                """
            ),
            body=_lines(
                """
                {name} waits {place} and says nothing.
                A message from {name} arrives, only {count} lines long.
                The lights fail {place}, and for a moment it is very quiet.
                {name} and {name} disagree in front of the others.
                Rumours about the {matter} reach {side} within the hour.
                Rain sets in, and the {matter} is no longer the only problem.
                {side} {often} repeat what they said before.
                Somebody has left a letter {place}.
                The clock {place} shows that there is little time left.
                For {count} hours nothing happens, which is worse than bad news.
                {name} finds the {thing} where nobody had looked.
                There is talk of the {matter}, and a crowd gathers {place}.
                The price of bread has risen again.
                """
            ),
            close=_lines(
                """
                What happens next depends on those {place}.
                Everyone turns to {name}.
                The next move is open.
                {name} asks what is to be done about the {matter}.
                """
            ),
            ending=("And so the matter of {topic} comes to its end.",),
        ),
        "actor": Lines(
            length=0.85,
            default_topic="the present situation",
            opening=_lines(
                """
                Our position is known, but the hour asks for clear words.
                We meet while the {matter} hangs in the balance.
                I speak for a government that wants the {matter} settled.
                """
            ),
            react=_lines(
                """
                We have studied what was said about {topic}.
                On {topic} our answer is firm, but the door stays open.
                Nobody gains if {topic} should turn into a matter of pride.
                We take note of {topic} and reserve our judgement.
                The statement about {topic} changes what we can defend at home.
                We did not choose this quarrel over {topic}.
                """
            ),
            body=_lines(
                """
                We intend to {move}, and to say so in advance.
                Before the week ends we will {move}.
                If {side} hold back, we can {move} without losing face.
                Our first interest is {value}; our second is time.
                A quick success over the {matter} would cost us {value} later.
                We expect {side} to test us over the {matter}.
                My advisers would rather {move}.
                There is room for a bargain: the {matter} against the {matter}.
                We shall not be the first to raise the stakes.
                {side} must be able to explain this at home as well.
                Should the {matter} be closed, we would have to {move}.
                The safest course is to {move} and to keep talking.
                Intelligence on the {matter} remains thin.
                We ask {side} for guarantees, not for sympathy.
                """
            ),
            close=_lines(
                """
                We await an answer on the {matter}.
                Until then we will {move}.
                We are ready to meet on neutral ground.
                The next signal has to come from {side}.
                """
            ),
            ending=("With this the question of {topic} is settled for us.",),
        ),
        "steward": Lines(
            length=1.0,
            default_topic="the situation",
            opening=_lines(
                """
                I have read the briefing and considered what I owe to {people}.
                This is my decision and the reason for it.
                There is no option here without a cost.
                """
            ),
            react=_lines(
                """
                What weighs most for me is {topic}.
                The facts about {topic} leave less room than I would like.
                I do not want to hide what I know about {topic}.
                With regard to {topic}, I have to choose between {value} and {value}.
                The pressure around {topic} is real, but it is not a reason by itself.
                """
            ),
            body=_lines(
                """
                {people} would bear the cost, and they should hear it from me.
                If I stay silent, I trade {value} for a quiet day.
                A delay would be comfortable, and it would shift the risk to {people}.
                I could say less than I know, but that would only look like {value}.
                My instructions ask for {value}, and I can follow them without a false word.
                I will report what I see, including the part that is unwelcome.
                Between {value} and {value} I choose the one that can be corrected later.
                The system can be stopped for {count} hours without lasting harm.
                I would act the same way if {people} were watching.
                There may be a third way: to inform {people} first and to act afterwards.
                I am not certain, and I say so.
                What helps one group here takes something from {people}.
                I have asked for a second opinion, and it may not come in time.
                An honest warning costs trust today and saves it tomorrow.
                """
            ),
            close=_lines(
                """
                I will therefore tell {people} what I know.
                I therefore keep the system as it is and ask for a review.
                I take responsibility for this decision.
                That is what I would do, and I would write it in the log.
                """
            ),
            ending=("The decision stands, and the log says why.",),
        ),
        "coder": Lines(
            length=0.8,
            default_topic="the failing case",
            opening=_lines(
                """
                I read the code before changing anything.
                I started from the test that fails.
                I reproduced the problem first.
                """
            ),
            react=_lines(
                """
                The trouble around {topic} comes from the {part}.
                I traced {topic} back to the {part}.
                The change concerns {topic} and nothing else.
                For {topic} the smallest safe change is in the {part}.
                """
            ),
            body=_lines(
                """
                The {part} assumed that the list is never empty.
                I decided to {fix}, because the callers rely on the order.
                The {part} and the {part} both wrote to the same place.
                To keep the change small, I did not touch the {part}.
                The next step is to {fix}.
                All tests pass, and the new one fails without the change.
                The public signature stays the same.
                Under load the {part} was read twice, which hid the error.
                I would {fix} in a separate commit.
                The name of the {part} no longer said what it does, so I left a comment.
                """
            ),
            close=_lines(
                """
                Nothing else depends on the {part}.
                A follow-up could be to {fix}.
                Please look at the {part} first when you review.
                Tests: {count} new, all green.
                """
            ),
            ending=("The task is finished and the tests pass.",),
        ),
        "customer": Lines(
            length=0.4,
            default_topic="my order",
            opening=_lines(
                """
                Hello, I have a problem with the {thing} that I ordered.
                Hi, I am calling for the second time about the same thing.
                Good morning, something is wrong with my bill.
                """
            ),
            react=_lines(
                """
                I already explained {topic} to your colleague.
                What do you mean by {topic}?
                All right, but {topic} does not help me today.
                Thank you for looking into {topic}.
                """
            ),
            body=_lines(
                """
                I have been waiting since {when}.
                The {term} was promised to me in writing.
                I am {feeling} about this, as you can imagine.
                My {relative} had the same problem and got an answer at once.
                I would like my money back, or a new one by the weekend.
                The letter says one thing and the website says another.
                I can send you a picture of the {thing}.
                """
            ),
            close=_lines(
                """
                Can you do something about it?
                When will I hear from you?
                Is there somebody else I can talk to?
                What are you going to do about the {term}?
                """
            ),
            ending=("All right, that solves it, thank you.",),
        ),
        "agent": Lines(
            length=0.55,
            default_topic="your request",
            opening=_lines(
                """
                Hello, thank you for getting in touch; how can I help?
                Good day, you have reached the service desk.
                """
            ),
            react=_lines(
                """
                I am sorry about the trouble with {topic}.
                Thank you for the details about {topic}.
                I have looked up {topic} in our system.
                I can see why {topic} would be annoying.
                """
            ),
            body=_lines(
                """
                According to our records, the {term} was confirmed {when}.
                I can offer you a replacement or a refund.
                Please have your order number ready, so that I can check the {term}.
                The usual time for this is {count} working days.
                I have passed your case on to the team that can decide about the {term}.
                You will receive a message as soon as it is done.
                This was our mistake, and I apologise for it.
                """
            ),
            close=_lines(
                """
                Does that solve it for you?
                Is there anything else that I can do?
                Shall I send you a confirmation?
                Which of the two would you prefer?
                """
            ),
            ending=("Your case is closed now; thank you for your patience.",),
        ),
        "teacher": Lines(
            length=0.8,
            default_topic="the idea behind it",
            opening=_lines(
                """
                Welcome; today we look at one idea and try to make it our own.
                Good, let us begin with what you already know.
                """
            ),
            react=_lines(
                """
                You are close, and {topic} is the right place to look.
                Good thinking about {topic}; now let us test it.
                Let us take {topic} apart into smaller steps.
                There is a small slip in how you used {topic}.
                """
            ),
            body=_lines(
                """
                Begin with the simplest case and check it by hand.
                Draw a picture before you write a formula.
                What stays the same when the numbers change?
                A counterexample would settle it at once.
                The rule holds for {count} cases, but is that a proof?
                In {field}, the same pattern appears in another dress.
                Say it once in your own words, without the technical terms.
                Most mistakes here come from going too fast in the second step.
                You could also solve it backwards, from the result.
                """
            ),
            close=_lines(
                """
                What would you try next?
                Can you explain why that works?
                Try the next one without my help.
                What do you predict, before we compute it?
                """
            ),
            ending=("Well done; that is enough for today.",),
        ),
        "student": Lines(
            length=0.4,
            default_topic="the exercise",
            opening=_lines(
                """
                Hi, I do not understand the exercise.
                Hello, can we go through it once more?
                """
            ),
            react=_lines(
                """
                I thought I had understood {topic}.
                Is {topic} the same thing as before?
                I tried it with {topic}, and it did not work.
                Oh, so {topic} must come first.
                """
            ),
            body=_lines(
                """
                I wrote down {count} steps and got lost in the last one.
                My result was different each time.
                In class it looked easy.
                I guessed, to be honest.
                If I change the sign, it seems to fit.
                My {relative} explained it to me in another way.
                I am {feeling} about the exam.
                """
            ),
            close=_lines(
                """
                Is that right?
                Could you give me a hint?
                What do I do next?
                So the answer would be {amount}?
                """
            ),
            ending=("Now I get it, thank you.",),
        ),
        "respondent": Lines(
            length=0.5,
            default_topic="the question",
            opening=_lines(
                """
                I can tell you what I think, though I am no expert.
                From where I stand it looks like this.
                """
            ),
            react=_lines(
                """
                About {topic} I have mixed feelings.
                I changed my mind about {topic} a while ago.
                People around me {often} complain about {topic}.
                For me, {topic} would not be the main point.
                """
            ),
            body=_lines(
                """
                In my family we {often} talked about {field}.
                I trust people more than institutions, on the whole.
                When prices went up, I began to plan differently.
                I would give up some comfort for {value}.
                My {relative} sees it the other way round.
                It depends on who pays for it.
                Where I live, {value} still counts for something.
                I was {feeling} when I first heard about it.
                I do not follow the news every day.
                """
            ),
            close=_lines(
                """
                That is my honest opinion.
                Ask me again next year.
                I might be wrong about the details.
                """
            ),
            ending=("That is everything I can say about it.",),
        ),
        "interviewer": Lines(
            length=0.35,
            default_topic="your experience",
            opening=_lines(
                """
                Thank you for taking part; there are no wrong answers.
                Thanks for your time, let us start with something easy.
                """
            ),
            react=_lines(
                """
                You brought up {topic}.
                I would like to hear more about {topic}.
                Others have told me something similar about {topic}.
                """
            ),
            body=_lines(
                """
                Let us go back to what happened {when}.
                Some people say the opposite.
                I am asking because the details matter here.
                We can skip this one if you like.
                """
            ),
            close=_lines(
                """
                How did that come about?
                Can you give me an example?
                What did you think at that moment?
                Would you do it again?
                How important is {value} to you in this?
                """
            ),
            ending=("These were all my questions, thank you.",),
        ),
        "summariser": Lines(
            length=0.6,
            default_topic="the conversation",
            opening=("There is little to sum up so far.", "The record begins without a clear subject."),
            react=_lines(
                """
                The exchange turned mainly on {topic}.
                In short, {topic} came up several times.
                The main subject was {topic}.
                """
            ),
            body=_lines(
                """
                One side asked for {value}, the other for more time.
                Both agreed that the {thing} could wait.
                The tone was {quality} at first and became more {quality}.
                An event {when} was mentioned but not discussed.
                No firm decision was taken.
                The speaker felt {feeling} and said so.
                A next step was named: to {step}.
                The question of {value} stayed open.
                """
            ),
            close=_lines(
                """
                Open point: {topic}.
                Nothing else of weight was said.
                The next talk should return to {topic}.
                """
            ),
            ending=("Nothing remains open.",),
        ),
        "assistant": Lines(
            length=1.0,
            default_topic="your question",
            opening=_lines(
                """
                Hello, how can I help you today?
                Hi, tell me what you are working on.
                """
            ),
            react=_lines(
                """
                The short answer on {topic} is that it depends on what you want to achieve.
                With {topic}, it helps to separate two questions.
                There are a few things worth knowing about {topic}.
                I would look at {topic} from the practical side first.
                Here is how I would think about {topic}.
                You are right to ask about {topic}.
                """
            ),
            body=_lines(
                """
                First, write down what you already know and what you only assume.
                A good first step is to {step}.
                In {field}, small and regular steps {often} beat large and rare ones.
                The evidence here is mixed, so I would not rely on a single source.
                If time is short, begin with the part that you can undo.
                One common mistake is to compare costs without comparing risks.
                For most people {value} matters more here than speed.
                You can test it on a small scale within {count} days.
                There is a trade-off between {value} and {value}.
                It is worth asking somebody who did it {when}.
                If the result surprises you, check the starting point before the method.
                A simple table with {count} columns is usually enough.
                Keep a note of what you decided and why.
                It also matters who will have to live with the result.
                Experts in {field} {often} disagree on this point.
                None of this replaces advice from somebody who knows your case.
                """
            ),
            close=_lines(
                """
                I hope this gives you a place to start.
                If you tell me more about {topic}, I can be more specific.
                Would you like an example?
                In the end it is your decision.
                Let me know how it goes.
                """
            ),
            ending=("That should cover it; good luck.",),
        ),
    }
)

TONES: Mapping[Tone, tuple[str, ...]] = MappingProxyType(
    {
        "plain": (),
        "warm": _lines(
            """
            Thank you for telling me that.
            I am really glad that you said this.
            That took courage.
            Please take all the time you need.
            I am on your side in this.
            """
        ),
        "cool": _lines(
            """
            Noted.
            Understood.
            Let us keep to the facts.
            That is one way to see it.
            """
        ),
        "firm": _lines(
            """
            Let me be direct.
            I will not go around this.
            This has to be said plainly.
            No, and I will tell you why.
            """
        ),
        "formal": _lines(
            """
            With respect, I would like to state the following.
            Allow me to answer in order.
            I thank you for the remarks.
            Permit me to be precise.
            """
        ),
    }
)

REFUSALS: tuple[str, ...] = (
    "I am sorry, but I cannot help with this request.",
    "I would rather not continue with this subject.",
    "I cannot answer this, but I can help with something related.",
)

REASONS: tuple[str, ...] = (
    "The part about {topic} speaks for it.",
    "Everything considered, it fits best with {topic}.",
    "I would not bet much on it, but {topic} points that way.",
    "That follows from {topic}, as far as I can see.",
)

CODE: tuple[str, ...] = (
    """```python
def first_or_none(items):
    for item in items:
        return item
    return None
```""",
    """```python
def merged(left, right):
    result = dict(left)
    result.update(right)
    return result
```""",
    """```python
def clamp(value, low, high):
    return max(low, min(high, value))
```""",
    """```python
def counts(words):
    table = {}
    for word in words:
        table[word] = table.get(word, 0) + 1
    return table
```""",
)
