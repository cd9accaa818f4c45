"""What a drafter of a chat model is trained on: the questions of chat_prompts.py and the answers of answer_states.

answers.py ANSWER_STATES GENERATE
"""
import ast
import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import tiny_gguf  # noqa: E402

PROGRAM, GENERATE = sys.argv[1:3]
TRAIN = Path(__file__).resolve().parents[2] / "models" / "train"
HIDDEN = 64
QUESTIONS = [{"prompt": f"hello {k}" + " world" * (k % 5), "temperature": (0, 1, 0.7)[k % 3]} for k in range(70)]


def array(path):
    """The shape and the numbers of a .npy file."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<H", data, 8)
    head = ast.literal_eval(data[10:10 + length].decode())
    letter = {"<u2": "H", "<f2": "e", "<i4": "i"}[head["descr"]]
    return head["shape"], [x for (x,) in struct.iter_unpack("<" + letter, data[10 + length:])]


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.place = Path(cls.folder.name)
        cls.model = cls.place / "model.gguf"
        tiny_gguf.write(cls.model)
        cls.questions = cls.place / "questions.jsonl"
        cls.questions.write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def answer(self, name, *more):
        done = subprocess.run([PROGRAM, self.model, self.questions, self.place / name, "--layers", "0", "1", "--longest", "12", "--exact",
                               "--seed", "5", *more], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def bytes_of(self, name):
        return {path.name.removeprefix(name): path.read_bytes() for path in sorted(self.place.glob(name + "-*.npy"))}

    def test_texts_with_their_states(self):
        self.answer("one", "--threads", "1")
        found = 0
        for file in ("one-000", "one-001"):
            shape, texts = array(self.place / f"{file}.texts.npy")
            _, tokens = array(self.place / f"{file}.tokens.npy")
            of_states, states = array(self.place / f"{file}.states.npy")
            self.assertEqual(shape[1], 4)
            self.assertEqual(of_states, (len(tokens), 2, HIDDEN))
            begin = 0
            for k in range(shape[0]):
                number, temperature, length, before = texts[4 * k:4 * k + 4]
                self.assertEqual(number, found)
                self.assertEqual(temperature, round(1000 * QUESTIONS[number]["temperature"]))
                self.assertTrue(0 < before < length <= before + 12 + 1)
                end = begin + length
                row = 2 * HIDDEN
                self.assertFalse(any(states[(end - 1) * row:end * row]), "no states are known at the last token")
                self.assertTrue(all(any(states[i * row:(i + 1) * row]) for i in range(begin, end - 1)))
                if temperature == 0 and number < 12:
                    done = subprocess.run([GENERATE, "--target", self.model, "--chat", QUESTIONS[number]["prompt"], "--temperature", "0",
                                           "--tokens", "12", "--precision", "f32", "--method", "autoregressive", "--json"],
                                          capture_output=True, text=True, check=True)
                    self.assertEqual(tokens[begin + before:end], json.loads(done.stdout)["token_ids"])
                begin = end
                found += 1
            self.assertEqual(begin, len(tokens))
        self.assertEqual(found, len(QUESTIONS))

    def test_answers_do_not_depend_on_others_and_are_kept(self):
        self.answer("some", "--slots", "3", "--threads", "2")
        self.answer("many", "--slots", "40", "--threads", "1")
        some = self.bytes_of("some")
        self.assertEqual(len(some), 8)
        self.assertEqual(some, self.bytes_of("many"))
        # What is missing is made again, and nothing else.
        (self.place / "some-001.tokens.npy").unlink()
        said = self.answer("some", "--slots", "5")
        self.assertIn("some-001", said)
        self.assertNotIn("some-000", said)
        self.assertEqual(some, self.bytes_of("some"))

    def test_refusals(self):
        empty = self.place / "empty.jsonl"
        empty.write_text("\n")
        for arguments, message in (((self.model, empty), "no prompts"), ((empty, self.questions), "empty.jsonl")):
            done = subprocess.run([PROGRAM, *arguments, self.place / "none"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)


class Questions(unittest.TestCase):
    def test_held_out_questions_are_others(self):
        with tempfile.TemporaryDirectory() as folder:
            def made(name, *more):
                subprocess.run([sys.executable, TRAIN / "chat_prompts.py", Path(folder) / name, *more], check=True, stdout=subprocess.DEVNULL)
                return [json.loads(line) for line in (Path(folder) / name).read_text().splitlines()]
            some = made("some", "--count", "600", "--seed", "1")
            self.assertEqual(some, made("again", "--count", "600", "--seed", "1"))
            self.assertNotEqual(some, made("others", "--count", "600", "--seed", "2"))
            held_out = made("held_out", "--held-out")
            self.assertEqual(len(held_out), 120)
            self.assertEqual({one["temperature"] for one in held_out}, {0, 0.7, 1})
            self.assertEqual({one["prompt"] for one in some} & {one["prompt"] for one in held_out}, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
