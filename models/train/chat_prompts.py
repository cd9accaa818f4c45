#!/usr/bin/env python3
"""Questions for a chat model: the prompts of answer_states.

    chat_prompts.py OUT.jsonl --count 8000 --seed 1 [--corpus build/corpus/train.txt]
    chat_prompts.py OUT.jsonl --held-out          40 questions of ten kinds, each at temperatures 0, 0.7 and 1
    chat_prompts.py OUT.jsonl --from FILE.json    the questions of that file, at the same temperatures

Templates over topics, things, tasks and texts. Every eighth entry of a list is for the held-out prompts alone, so the two
have no topic, no task and no text in common. Texts are docstrings of Python's library (3.11 for
the shipped drafter, others have others) and the paragraphs of prepare.py.
Temperatures are 1 for three of six prompts, 0.7 for two, 0.3 for one.
"""
import argparse
import ast
import glob
import json
import os
import random

TOPICS = """photosynthesis; black holes; inflation; the French Revolution; vaccines; the water cycle; neural networks; the Roman Empire;
volcanoes; the human heart; gravity; democracy; recycling; the stock market; plate tectonics; the solar system; evolution;
electric cars; the internet; climate change; bread baking; the theory of relativity; antibiotics; bees and pollination; the
Cold War; music theory; meditation; supply and demand; operating systems; encryption; the immune system; the Great Wall of
China; coral reefs; tides; rainbows; the printing press; DNA; jazz; renewable energy; the Silk Road; chess; yoga; blood
pressure; earthquakes; the moon landing; databases; compilers; the periodic table; digestion; sleep; dinosaurs; the
industrial revolution; insurance; soil erosion; magnetism; glaciers; the Olympic Games; deserts; mushrooms; Shakespeare;
fractions; probability; taxes; bridges; airplanes; lasers; batteries; the ozone layer; bird migration; coffee; tea; cheese
making; the Renaissance; ancient Egypt; the Vikings; the Aztecs; the Ottoman Empire; World War I; the Great Depression; the
Space Race; human rights; the United Nations; the European Union; elections; courts and judges; free speech; journalism;
advertising; marketing; small businesses; banks; interest rates; credit cards; mortgages; trade unions; globalization;
cryptocurrency; blockchain; cloud computing; machine learning; robots; virtual reality; social media; video games; search
engines; programming languages; version control; unit tests; recursion; sorting algorithms; graphs in computer science; hash
tables; linked lists; object-oriented programming; functional programming; web servers; HTTP; email; passwords; computer
viruses; open source software; Linux; spreadsheets; statistics; algebra; geometry; calculus; prime numbers; infinity; logic;
the scientific method; atoms; chemical bonds; acids and bases; combustion; electricity; light; sound; heat; energy;
friction; Newton's laws; quantum mechanics; nuclear power; stars; galaxies; comets; the Moon; Mars; telescopes; satellites;
weather forecasts; hurricanes; clouds; snow; rivers; lakes; oceans; whales; sharks; octopuses; ants; spiders; butterflies;
frogs; snakes; eagles; penguins; elephants; wolves; cats; dogs; horses; cows; chickens; trees; flowers; seeds; forests;
rainforests; gardening; compost; farming; irrigation; pesticides; food chains; bacteria; viruses; fungi; cells; genes;
cancer; diabetes; allergies; the brain; memory; emotions; stress; anxiety; depression; nutrition; vitamins; protein;
exercise; running; swimming; cycling; football; basketball; tennis; cricket; mountain climbing; hiking; camping; travel;
hotels; trains; ships; submarines; cars; bicycles; roads; cities; skyscrapers; houses; furniture; pottery; glass; steel;
plastic; paper; cotton; wool; fashion; jewellery; painting; sculpture; photography; cinema; theatre; opera; ballet; the
piano; the guitar; drums; choirs; poetry; novels; fairy tales; myths; Greek gods; Buddhism; Islam; Christianity; Judaism;
Hinduism; philosophy; ethics; happiness; friendship; love; family; marriage; childhood; education; homework; universities;
libraries; museums; languages; grammar; spelling; handwriting; translation; humour; dreams; time; money; work; leadership;
teamwork; negotiation; public speaking; job interviews; resumes; time management; habits; procrastination; volunteering;
charity; poverty; refugees; war; peace; diplomacy; spies; pirates; knights; castles; kings and queens; slavery; women's
suffrage; civil rights; maps; the compass; clocks; calendars; the alphabet; numbers; money in ancient times; salt; sugar;
chocolate; rice; potatoes; apples; honey; wine; fishing; hunting; mining; oil; coal; wind turbines; solar panels; hydrogen;
waste; air pollution; water treatment; fire safety; first aid; surgery; dentistry; hospitals; nurses"""
CHARACTERS = """a shy dragon; an old lighthouse keeper; a robot gardener; two brothers; a talking cat; a girl with a magic compass; a
retired detective; a clumsy wizard; a young astronaut; a village baker; a blind violinist; a brave mouse; a time traveller;
a fisherman; a boy with a broken bicycle; a librarian who reads minds; a wolf who is afraid of the dark; a queen without a
crown; a train conductor; a painter who loses her colours; a ghost in an attic; a soldier coming home; an elephant who wants
to fly; a clockmaker's daughter; a spy; a farmer; a pirate who hates water; a nurse; a taxi driver; a beekeeper; a chess
champion; a lonely giant; an inventor; a mermaid; a fox; an orphan; a schoolteacher; a gardener; a thief with a good heart;
a scientist; an owl; a twelve-year-old coder; a grandmother; a snowman; a puppet; a sailor; a monk; a postman; a pair of
twins; a dancer"""
PLACES = """in a dark forest; on Mars; in a small village; under the sea; in a city of glass; during a snowstorm; in an old castle; on a
desert island; in a school; on a train at night; in a museum after closing; at the end of the world; in a mountain hut; at a
market; in a hospital; on a farm; in space; in a haunted house; in medieval Japan; in New York; in a library; by a river; in
a circus; at an airport"""
PLOTS = """who must choose between two friends; who finds a secret door; who learns to forgive; who loses everything; who gets an
unexpected letter; who keeps a promise; who solves a mystery; who breaks a rule; who makes a new friend; who has to tell the
truth; who wins a strange contest; who saves the day; who meets a stranger; who finds an old map; who builds something
impossible; who is not what they seem"""
CODE = """reverses a string; checks whether a number is prime; computes the factorial of a number; finds the largest element of a
list; counts the vowels in a string; sorts a list with bubble sort; merges two sorted lists; removes duplicates from a list;
computes the Fibonacci sequence; reads a CSV file and prints each row; checks whether a word is a palindrome; converts
Celsius to Fahrenheit; finds the greatest common divisor; flattens a nested list; counts word frequencies in a text;
implements binary search; implements a stack; computes the average of a list; generates a random password; prints a triangle
of stars; transposes a matrix; validates an email address; computes the sum of the digits of a number; implements a queue;
rotates a list by k positions; finds the second largest number; checks whether two strings are anagrams; converts a number
to binary; counts the lines of a file; implements a linked list; implements quicksort; finds the longest word in a sentence;
capitalizes every word; computes the power of a number; finds missing numbers in a range; removes spaces from a string;
parses a date; downloads a web page; calculates compound interest; plays rock, paper, scissors; guesses a number; multiplies
two matrices; finds all pairs with a given sum; prints a multiplication table; encrypts text with a Caesar cipher;
implements a simple calculator; tracks a to-do list; counts the nodes of a binary tree; traverses a graph breadth first;
measures the time of a function; reads JSON and prints one field; groups words by their first letter; computes the median;
checks for balanced parentheses; converts Roman numerals to integers; simulates rolling two dice"""
LANGUAGES = "Python; Python; Python; JavaScript; C; Java; C++; Go; Ruby; Bash; SQL; TypeScript"
THINGS = """healthy breakfasts; ways to save money; tips for learning a language; books for children; places to visit in Europe; good
habits; gifts for a friend; exercises at home; ways to reduce stress; names for a cat; questions for a job interview; ideas
for a birthday party; ways to save water; vegetables for a small garden; rules for a classroom; reasons to read books; foods
rich in iron; steps to start a small business; mistakes in essays; things to pack for camping; team building games; ways to
improve sleep; safety rules in a kitchen; hobbies for winter; tips for public speaking; famous scientists; inventions that
changed the world; animals that live in Africa; musical instruments; kinds of clouds; adjectives to describe a person;
synonyms of happy; countries in South America; kinds of renewable energy; careers in computing; ways to make new friends;
cheap dinners; science experiments for kids; board games for families; ways to stay focused; apps for students; topics for a
blog; slogans for a coffee shop; names for a bakery; titles for a mystery novel; questions about history; ways to help the
environment; tips for new parents; signs of a good leader; ideas for a science fair; benefits of walking; side effects of
caffeine; common computer problems; vegetarian recipes; riddles; jokes about computers; facts about the ocean; facts about
space; great explorers; ancient civilizations; types of poems; ways to thank a teacher"""
LETTERS = """my landlord about a broken heater; a friend who moved to another city; my boss asking for a day off; a company about a late
delivery; my grandmother to thank her for a gift; a teacher to explain an absence; a neighbour about loud music; a hotel to
book a room; a customer to apologise for a mistake; a colleague to congratulate her on a promotion; the mayor about a
dangerous crossing; a museum to ask about opening hours; an airline about lost luggage; a professor to ask for a
recommendation; a bank to close an account; a library about an overdue book; a client about a delayed project; a team about
a change of schedule; a new employee to welcome them; a school to apply for a place; a supplier to ask for a quote; a friend
to invite her to a wedding; a doctor to ask for an appointment; a newspaper about a wrong report; an investor about a new
idea; my parents about my first week at university; a former teacher to say thank you; a charity to offer help"""
SENTENCES = """the dog run fast in the park yesterday; me and him goes to the store for buy milk; she dont like apples because they is
sour; the meeting was cancelled due to the fact that nobody came; i has been working here since five years; their going to
the beach if the wether is good; the report was wrote by the team; he speaked to the manager about there problem; we was
very tired after the long walk; this are the most important reason for the change; the informations you gave me was useful;
yesterday i go to the cinema and see a good film; it dont matter what he say; if i would have known i would come; him and
his brother is playing outside; the childrens was eating they lunch; she is more smarter than her sister; i am living in
this city since 2010; can you borrow me your pen please; there is many people in the street; he didnt went to school because
of he was ill; the book what i read was interesting; my friend she works in a bank; we discussed about the new plan; i look
forward to meet you; the train is leaving before we arrived; nobody dont know the answer; these kind of shoes is expensive;
please explain me this word; i have went there twice"""
CORRECT = """The weather is very nice today and we are going for a walk; The committee decided to postpone the meeting until next week;
Our company offers the best service in town; I think that this movie was really very good; The results show that the new
method works better; Please send me the documents as soon as possible; He was not happy with the food at the restaurant; The
old house stood alone on the hill; Technology has changed the way in which we communicate; Many people believe that money
brings happiness; The students were asked to hand in their essays; She opened the door slowly and looked inside; The price
of bread went up again this year; We have to find a solution to this problem; The child was playing with a red ball; The
experiment was repeated three times"""
QUESTIONS = """Who wrote Romeo and Juliet?; What is the largest ocean on Earth?; Why is the sky blue?; How many days are in a leap year?;
What is the difference between a virus and a bacterium?; Who was the first president of the United States?; What causes
thunder?; How do airplanes fly?; What is the capital of Japan?; Why do leaves change colour in autumn?; How does a
refrigerator work?; What is the difference between weather and climate?; Why do we yawn?; What is a noun?; How does a
microwave oven heat food?; What does a lawyer do?; Why is salt water denser than fresh water?; What is the purpose of a
constitution?; How do computers store numbers?; What is the difference between RAM and a hard disk?; How long does light
travel from the Sun to the Earth?; Why do cats purr?; What is an algorithm?; What are the three states of matter?; How is
paper made?; What does the liver do?; Who painted the Mona Lisa?; What is the highest mountain in the world?; How many
continents are there?; When did World War II end?; What is the speed of light?; Who discovered penicillin?; What is the
boiling point of water?; Which planet is the largest?; What is the chemical symbol for gold?; How many bones does an adult
have?; Who invented the telephone?; What is the longest river?; Why do we have seasons?; How do fish breathe?; What is a
metaphor?; What is the tallest animal?; Why does ice float?; What language is spoken in Brazil?; Who was Cleopatra?; What is
a prime number?; How do magnets work?; What is GDP?; Why do people dream?; What is the Pythagorean theorem?; How does a
camera work?; What is a black hole?; Why is exercise good for you?; What do bees make?; How are mountains formed?; What is
artificial intelligence?; Can you help me?; Who are you?; What can you do?; Tell me a joke.; Hello!; Good morning, how are
you?; What should I cook tonight?; I feel sad today. What can I do?; I am bored. What should I do?; Tell me something
interesting.; How can I become a better writer?; What is the meaning of life?; Should I learn Python or Java?; How do I tie
a tie?; How do I boil an egg?; What time is it in London when it is noon in New York?"""
PROBLEMS = """sleep better; learn to play the guitar; repair a flat tyre; make friends in a new town; cook rice; prepare for a marathon;
start a garden; save money for a house; write a novel; learn Spanish; stop biting my nails; train a puppy; remove a stain
from a shirt; set up a home network; study for an exam; quit smoking; lose weight; ask for a raise; choose a laptop; plan a
trip to Italy; speak in front of a crowd; bake a cake; build a bookshelf; clean a kitchen; change a light bulb; read more
books; manage my time; deal with a difficult colleague; get a driving licence; write a good resume; paint a room; grow
tomatoes; meditate; fix a slow computer; back up my files; choose a career; organize my desk; raise a happy child; make a
website; reduce my electricity bill"""
WORDS = """ambiguous; resilient; melancholy; paradox; empathy; catalyst; frugal; obsolete; serendipity; irony; ephemeral; pragmatic;
candid; diligent; eloquent; novice; tedious; vivid; zealous; benevolent; cryptic; dubious; lucid; meticulous; nostalgia;
ominous; plausible; quaint; reluctant; scrutiny; tangible; unanimous; versatile; whimsical; abstract; bias; consensus;
dilemma; entropy; fallacy; hypothesis; inference; jargon; kinetic; latent; momentum; nuance; optimal; paradigm; quorum;
rhetoric; stigma; tariff; utopia"""
PRODUCTS = """a solar lamp; a wooden chair; running shoes; a smart kettle; a travel mug; a fitness watch; an electric bicycle; a cookbook;
a language learning app; a raincoat; a tent; a desk lamp; a notebook; noise-cancelling headphones; a garden hose; a board
game; a robot vacuum cleaner; a bookstore; a yoga studio; a pizzeria"""
PEOPLE = """a nurse; a medieval knight; a bus driver; a marine biologist; an astronaut; a chef; a farmer; a firefighter; a pilot; a
police officer; a software engineer; a judge; a carpenter; a journalist; a zookeeper; an archaeologist; a musician; a
librarian; a fisherman; a teacher; a pharmacist; a geologist; a tailor; a mayor"""
SHORT_TEXTS = """The house is big.; I would like a cup of tea.; Where is the train station?; My sister lives in Berlin.; It is raining
today.; How much does this cost?; We went to the beach last summer.; He is reading a book.; The children are playing in the
garden.; I do not understand.; Can you help me, please?; The museum opens at nine.; She works in a hospital.; I am hungry
and tired.; Happy birthday, my friend!; The soup is too hot."""
TONGUES = "French; Spanish; German; Italian; Portuguese; Latin; Dutch; Chinese"

# Kinds of prompts: templates; {topic} draws from the list of that name, {text} a paragraph, {sum} a calculation.
TEMPLATES = {
    "explain": """Explain {topic} in simple terms.|What is {topic} and why is it important?|Give me a short introduction to {topic}.|Explain
{topic} to a five-year-old.|How does {topic} affect our lives?|What are the main ideas behind {topic}?|Tell me about the
history of {topic}.|What are common misconceptions about {topic}?|Write a short essay about {topic}.|Write three paragraphs
about {topic} for a school newspaper.|Why do people care about {topic}?|What would the world be like without {topic}?|Write
an outline for a talk on {topic}.|Write a quiz with five questions about {topic}.|{topic}|Can you teach me about
{topic}?|What is the future of {topic}?|I know nothing about {topic}. Where should I begin?""",
    "story": """Write a short story about {character} {place}.|Tell me a bedtime story about {character} and {character}.|Write a story
about {character} {plot}.|Write the first paragraph of a novel about {character} {place}.|Continue this story: Once upon a
time there was {character} {plot}.|Write a funny story about {character} and {product}.|Write a story about {character} that
teaches a lesson about {topic}.|Describe {character} in detail.|Invent a legend that explains {topic}.|Write a diary entry
of {character} {place}.""",
    "poem": """Write a poem about {topic}.|Write a haiku about {topic}.|Write a song about {character}.|Write a rhyming poem for children
about {topic}.|Write a limerick about {character}.""",
    "code": """Write a {language} function that {code}.|Show me a {language} program which {code}, and explain how it works.|How do I write
code that {code} in {language}?|Write a {language} script that {code}. Include comments.|Write unit tests for a {language}
function that {code}.|I need a program that {code}. Which steps does it take?|Write a {language} class that {code}.|Explain
what a program does that {code}.""",
    "list": """Give me a list of {number} {thing}.|What are some {thing}?|List {number} {thing} with a short explanation of each.|Suggest
{thing}.|I need {number} {thing}. Be brief.|List {number} facts about {topic}.|List the pros and cons of {topic}.|Give me a
table of {thing}.""",
    "letter": """Write a polite letter to {letter}.|Write a short email to {letter}.|Write an angry but fair letter to {letter}.|Help me
write to {letter}.|Write a reply to an email from {letter}.""",
    "sum": "{sum}|{sum}|{sum} Explain step by step.|{sum} Answer with a number only.|Solve this problem: {sum}",
    "language": """Correct the grammar of this sentence: {sentence}|Fix the mistakes: {sentence}|Rewrite in formal English: {sentence}|What is
wrong with this sentence? {sentence}|Rewrite this sentence in three ways: {correct}.|Make this sentence more interesting:
{correct}.|Translate into {tongue}: {short}|How do you say this in {tongue}? {short}|Turn this sentence into a question:
{correct}.|What does the word {word} mean?|Use the word {word} in three sentences.|Give me synonyms of {word}.|Explain the
difference between {word} and {word}.|Rewrite this text for a child: {correct}.""",
    "text": """Summarize the following text in two sentences:\\n\\n{text}|Rewrite the following paragraph in plain modern
English:\\n\\n{text}|{text}\\n\\nWhat is the main point of this text?|Write three questions with answers about this
text.\\n\\n{text}|Write a title for this text:\\n\\n{text}|List the key points of this text:\\n\\n{text}|Explain this text
to me:\\n\\n{text}|Who could have written this, and why?\\n\\n{text}|Continue this text:\\n\\n{text}|Is this text positive
or negative? Give reasons.\\n\\n{text}""",
    "advice": """How can I {problem}?|How can I {problem}? Give step by step instructions.|Give me five tips to {problem}.|I want to
{problem}, but I have no time. What should I do?|My friend wants to {problem}. What should I tell him?|What is the hardest
part if I want to {problem}?|Make a weekly plan that helps me to {problem}.|{question}|{question}|{question}|{question}
Answer in one sentence.|{question} Give an example.""",
    "compare": """Compare {topic} and {topic}.|What do {topic} and {topic} have in common?|Which is more important, {topic} or {topic}?|Is it
better to {problem} or to {problem}?""",
    "dialogue": """Write a dialogue between a teacher and a student about {topic}.|Write a conversation between {person} and {person} about
{topic}.|Interview {person} about {topic}.|Pretend that you are {person}. What do you think about {topic}?|Describe a day in
the life of {person}.|Write a speech by {person} about {topic}.|Write a product description for {product}.|Write an
advertisement for {product}.|Write a review of {product}.|Write a scene in which {character} meets {person} {place}.""",
}
WEIGHTS = {"explain": 16, "story": 12, "poem": 5, "code": 12, "list": 10, "letter": 6, "sum": 6, "language": 8, "text": 10, "advice": 10, "compare": 4, "dialogue": 9}
HELD_OUT = ("explain", "story", "code", "list", "letter", "sum", "language", "text", "advice", "dialogue")


def entries(text, separator=";"):
    return [" ".join(entry.split()) for entry in text.split(separator) if entry.strip()]


def texts(corpus):
    """Paragraphs of 100 to 420 characters: docstrings of Python's library, and a corpus."""
    found = []
    for name in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py"))):
        with open(name, encoding="utf-8", errors="replace") as file:
            try:
                tree = ast.parse(file.read())
            except SyntaxError:
                continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                found += [" ".join(p.split()) for p in (ast.get_docstring(node) or "").split("\n\n")]
    if corpus:
        with open(corpus, encoding="utf-8") as file:
            lines = [" ".join(p.split()) for p in file.read().split("\n\n")]
        found += random.Random(0).sample(lines, min(len(lines), 3000))
    cut = [p if len(p) <= 420 else p[: p.rfind(" ", 0, 420)] for p in found if len(p) >= 100]
    return sorted(set(cut))


def calculation(draw, held_out):
    a, b, c = 2 * draw.randint(1, 20) + held_out, draw.randint(2, 25), draw.randint(2, 12)
    name = draw.choice(["Tom", "Anna", "Maria", "Sam", "Lena", "Ravi", "Kim", "Omar"])
    thing = draw.choice(["apples", "books", "coins", "pencils", "stamps", "eggs"])
    return draw.choice([
        f"{name} has {a + b} {thing} and gives {b} to a friend. How many {thing} are left?", f"What is {a} times {b}?", f"What is {a} + {b} - {c}?",
        f"A train travels {a * 10} miles in {c} hours. What is its average speed?", f"Solve for x: {c}x + {b} = {a * c + b}.", f"What is {c * 5}% of {a * 20}?",
        f"{name} buys {c} {thing} at {a} dollars each. How much is that in total?", f"What is the area of a rectangle with length {a} cm and width {b} cm?",
        f"A box holds {c} {thing}. How many boxes are needed for {a * c} {thing}?", f"What is the average of {a}, {b} and {c}?", f"What is {a * c} divided by {c}?"])


class Prompts:
    def __init__(self, draw, corpus, held_out):
        self.draw, self.held_out = draw, held_out
        lists = {"topic": TOPICS, "character": CHARACTERS, "place": PLACES, "plot": PLOTS, "code": CODE, "thing": THINGS, "letter": LETTERS, "sentence": SENTENCES,
                 "correct": CORRECT, "question": QUESTIONS, "problem": PROBLEMS, "word": WORDS, "product": PRODUCTS, "person": PEOPLE, "short": SHORT_TEXTS}
        lists = {name: entries(text) for name, text in lists.items()}
        lists["text"] = texts(corpus)
        self.lists = {name: [entry for i, entry in enumerate(all_of) if (i % 8 == 3) == held_out] for name, all_of in lists.items()}
        self.lists |= {"language": entries(LANGUAGES), "tongue": entries(TONGUES), "number": ["3", "5", "7", "10"]}

    def fill(self, template):
        out = ""
        for i, part in enumerate(template.split("{")):
            if i == 0:
                out += part
                continue
            name, rest = part.split("}", 1)
            value = calculation(self.draw, self.held_out) if name == "sum" else self.draw.choice(self.lists[name])
            out += (value if out else value[0].upper() + value[1:]) + rest
        return out

    def one(self, kind):
        return self.fill(self.draw.choice(entries(TEMPLATES[kind], "|")).replace("\\n", "\n"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--count", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", help="paragraphs with an empty line between them")
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--from", dest="given", help="a list of objects with kind and prompt")
    a = parser.parse_args()
    draw = random.Random(f"{a.seed} {a.held_out}")
    prompts = Prompts(draw, a.corpus, a.held_out)
    rows, seen = [], set()
    if a.given:
        with open(a.given, encoding="utf-8") as file:
            rows = json.load(file)
    while not a.given and len(rows) < (40 if a.held_out else a.count):
        kind = HELD_OUT[len(rows) % 10] if a.held_out else draw.choices(list(WEIGHTS), WEIGHTS.values())[0]
        prompt = prompts.one(kind)
        if prompt not in seen:
            seen.add(prompt)
            rows.append({"kind": kind, "prompt": prompt})
    if a.held_out or a.given:
        rows = [row | {"temperature": t} for t in (0, 0.7, 1) for row in rows]
    else:
        rows = [row | {"temperature": (1, 1, 1, .7, .7, .3)[i % 6]} for i, row in enumerate(rows)]
    with open(a.out, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
