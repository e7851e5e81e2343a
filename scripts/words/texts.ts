import { parseSync } from 'rolldown/utils'

/** Finds the text in a file: strings, JSX, comments, and documents, but not names, SQL, and samples. */

type Span = { kind: string; start: number; end: number }
type Tree = { type: string; start: number; end: number } & Record<string, unknown>

/** The kind of strings by file. Their position can override it. The first match counts. */
const KINDS: [RegExp, string | undefined][] = [
  [/^tests\/|example-programs\.ts$|load-test\/statements\.ts$/, undefined],
  [/^src\/(?:guide|http\/openapi\/\w+)\.ts$/, 'openapi'],
  [/^src\/mail\/(?:letters|notices)\.ts$/, 'emails'],
  [/^src\/pages\//, 'pages'],
  [/./, 'messages'],
]
const PATTERNS: [RegExp, string, RegExp][] = [
  [/\.css$/, 'comments', /(?<=\/\*)[^*]*/g],
  [/(?<!\.css)$/, 'comments', /(?<=^ *(?:#|--) ).*/gm],
  [/\.yaml$/, 'messages', /(?<=^ +(?:summary|description):).*(?:\n {12}.*)*/gm],
]
const NAMES = ['ImportDeclaration', 'ExportAllDeclaration', 'TSLiteralType', 'TaggedTemplateExpression']
const NO_TEXT = [
  /^\s*(?:select|insert into|update \w+ set|delete from|with \w+ as|(?:create|alter|drop|set) \w+)\s/,
  /^[\w.]+ as \w+$/,
  /^[A-Z]+ \//,
]
const CODE = /```[\s\S]*?```|`[^`|]+`|https?:[^\s)]+|<!--[\s\S]*?-->|<[a-z/][^>|\n]*>/g
/** In Markdown, after an empty line. */
const INDENTED_CODE = /(?<=\n\n)(?: {4,}.*(?:\n|$)|\n(?= {4}))+/g
const breaks = (source: string) => source.replace(/[^\n]+/g, '')
const blank = (code: string) => `…${breaks(code)}`

/** The text of each kind in a file. Everything else is reduced to its line breaks, so that line numbers match. */
export function textsOf(file: string, source: string): [kind: string, text: string][] {
  const isGuide = file.startsWith('src/pages/docs/')
  if (file.endsWith('.md'))
    return [[isGuide ? 'guides' : file, source.replace(CODE, blank).replace(INDENTED_CODE, blank)]]
  const spans = (/\.tsx?$/.test(file) ? spansOfTypeScript : spansOfLines)(file, source)
  spans.sort((one, other) => one.start - other.start)
  return [...new Set(spans.map(({ kind }) => kind))].map((kind) => {
    let [text, at] = ['', 0]
    for (const { start, end } of spans.filter((span) => span.kind === kind)) {
      text += separator(source.slice(at, start)) + clean(source.slice(start, end))
      at = end
    }
    return [kind, text.replace(CODE, blank)]
  })
}

/** Empty within a comment of several lines, a word within a template, otherwise an end. */
function separator(gap: string): string {
  if (/^\n? *(?:\/\/|#|--) *$/.test(gap)) return breaks(gap)
  return gap.startsWith('${') ? blank(gap) : `|${breaks(gap)}`
}

/** Without examples in comments, asterisks, and escapes. */
const clean = (text: string) => text.replace(/^ *\* {4,}.*$|\\n/gm, '|').replace(/^ *\*|\\(?=.)/gm, '')

const spansOfLines = (file: string, source: string): Span[] =>
  PATTERNS.filter(([files]) => files.test(file)).flatMap(([, kind, pattern]) => {
    const matches = [...source.matchAll(pattern)]
    return matches.map(({ 0: text, index }) => ({ kind, start: index, end: index + text.length }))
  })

function spansOfTypeScript(file: string, source: string): Span[] {
  const { program, comments, errors } = parseSync(file, source)
  if (errors[0]) throw new Error(`${file}: ${errors[0].message}`)
  const isTest = file.startsWith('tests/')
  const spans = comments.map(({ start, value }) => ({
    ...{ kind: isTest ? 'test comments' : 'comments', start: start + 2, end: start + 2 + value.length },
  }))
  const add = (kind: string | undefined, whole: Tree, parts: Tree[]) => {
    const text = source.slice(whole.start + 1, whole.end - 1)
    const isLong = text.trim().split(/\s+/).length >= (kind === 'messages' ? 3 : 2)
    if (!kind || !isLong || NO_TEXT.some((pattern) => pattern.test(text))) return
    for (const { start, end, tail } of parts)
      spans.push({ kind, start: start + 1, end: end - (tail === false ? 2 : 1) })
  }
  const visit = (tree: unknown, kind: string | undefined): void => {
    if (Array.isArray(tree)) for (const one of tree) visit(one, kind)
    if (!isTree(tree) || NAMES.includes(tree.type)) return
    const { type, start, end, value } = tree
    if (type === 'Literal' && typeof value === 'string') add(kind, tree, [tree])
    else if (type === 'JSXText' && kind) spans.push({ kind, start, end })
    else if (type === 'CallExpression') visitCall(tree, kind)
    else if (type === 'Property') visit(value, kindOfProperty(tree, kind))
    else for (const child of Object.values(tree)) visit(child, kind)
    if (type === 'TemplateLiteral') add(kind, tree, tree['quasis'] as Tree[])
  }
  const visitCall = (tree: Tree, kind: string | undefined) => {
    const callee = tree['callee'] as Tree
    const name = ['each', 'for'].includes(nameOf(callee['property'])) ? '' : nameOf(callee)
    visit(callee, kind)
    for (const [index, argument] of (tree['arguments'] as Tree[]).entries()) {
      const isString = /Literal$|BinaryExpression/.test(argument.type)
      if (isTest && index === 0 && ['describe', 'test', 'it'].includes(name)) visit(argument, 'titles')
      else visit(argument, kind && isString && ['field', 'object', 'body'].includes(name) ? 'openapi' : kind)
    }
  }
  visit(program, KINDS.find(([files]) => files.test(file))?.[1])
  return spans
}

const isTree = (value: unknown): value is Tree => typeof (value as Tree | null)?.type === 'string'

/** The first name in an expression: `test` in `test.each(rows)`. */
function nameOf(tree: unknown): string {
  if (!isTree(tree)) return ''
  return String(tree['name'] ?? tree['value'] ?? nameOf(tree['callee'] ?? tree['object']))
}

/** A `description` belongs to the OpenAPI document, unless it is computed elsewhere. */
function kindOfProperty({ key, value }: Tree, kind: string | undefined): string | undefined {
  const isText = kind === 'messages' && isTree(value) && !/^(?:Call|Object)Expression$/.test(value.type)
  return isText && ['summary', 'description', 'title'].includes(nameOf(key)) ? 'openapi' : kind
}
