import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Marked, type RendererObject } from 'marked'
import { ACTIONS } from '../src/audit/entry.ts'
import { ROLE_PERMISSIONS } from '../src/company/account.ts'
import { COUNTED, type Limits, readLimits } from '../src/config/limits.ts'
import { catalogue, type ProblemCode, rateOf } from '../src/errors.ts'
import { PAGE_SOURCES } from '../src/http/built-pages.ts'
import { CODES } from '../src/http/openapi/codes.ts'
import { EXAMPLES } from '../src/pages/signed-in/example-programs.ts'

/** Renders the guides in src/pages/docs as HTML pages, and as one text for language models (llms.txt). */

/** In reading order, by section. A file's first heading is its title. */
const SECTIONS = {
  'Get started': ['index', 'quickstart'],
  Guides: ['sign-in', 'browsers', 'service-accounts', 'two-factor', 'members', 'audit', 'events', 'verify'],
  Reference: ['reference', 'errors', 'limits', 'versions', 'changelog'],
}
const NAMES = Object.values(SECTIONS).flat()

/** Stands for the origin of the deployment. src/http/pages.ts replaces it. */
const ORIGIN = 'https://auth.example.com'

interface Guide {
  name: string
  path: string
  title: string
  /** The first paragraph. */
  description: string
  markdown: string
}

interface Head {
  title: string
  description: string
}

/** The files by path. `head` and `mark` are parts that all pages share. */
export async function renderDocs(
  headOf: (head: Head) => string,
  mark: string,
): Promise<[path: string, contents: Uint8Array][]> {
  const guides = await Promise.all(NAMES.map(readGuide))
  const pages = guides.map((guide): [string, string] => [
    `docs/${guide.name}.html`,
    pageOf(guide, guides, headOf, mark),
  ])
  const texts = guides.map(({ path, markdown }) => `<!-- ${ORIGIN}${path} -->\n\n${markdown.trim()}\n`)
  return [...pages, ['docs/llms.txt', texts.join('\n')] as const].map(([path, text]) => [
    path,
    Buffer.from(text),
  ])
}

async function readGuide(name: string): Promise<Guide> {
  const file =
    name === 'changelog' ? join(PAGE_SOURCES, '../../CHANGELOG.md') : join(PAGE_SOURCES, `docs/${name}.md`)
  const source = await readFile(file, 'utf8')
  const markdown = source.replace(/^\{\{(\w+)\}\}$/gm, (_, part) => {
    const text = PARTS[part]?.()
    if (text === undefined) throw new Error(`${file} names a part that does not exist: ${part}`)
    return text
  })
  const [, title, description] = /^# (.+)\n\n((?:.+\n)+)/.exec(markdown) ?? []
  if (title === undefined || description === undefined)
    throw new Error(`${file} does not start with a title and a paragraph`)
  const path = name === 'index' ? '/docs' : `/docs/${name}`
  return { name, path, title, description: plainOf(description), markdown }
}

const plainOf = (markdown: string) =>
  markdown
    .replace(/\[([^\]]*)\]\([^)]*\)|[`*]/g, '$1')
    .replace(/\s+/g, ' ')
    .trim()

/** What the code knows better than a guide: `{{codes}}` in a line of its own. */
const PARTS: Record<string, () => string> = {
  codes: () =>
    Object.entries(Object.groupBy(Object.entries(catalogue), ([, [, category]]) => category))
      .map(([category, rows = []]) =>
        [`## ${titleOf(category)} errors`, ...rows.map(sectionOfCode)].join('\n\n'),
      )
      .join('\n\n'),
  limits: () => {
    const limits = readLimits({}, [])
    const names = Object.keys(COUNTED).filter((name): name is keyof Limits => name in COUNTED)
    const rows = names.map((name) => {
      const most = name === 'auditReads' ? `${limits[name].max} at a time` : rateOf(limits[name])
      return [limits[name].name, most, COUNTED[name]]
    })
    return toTable(['limit', 'default', 'counts'], rows)
  },
  roles: () => {
    const rows = Object.entries(ROLE_PERMISSIONS).map(([role, permissions]) => [role, inCode(permissions)])
    return toTable(['role', 'permissions'], rows)
  },
  actions: () => toTable(['action', 'meaning'], Object.entries(ACTIONS)),
  programs: () =>
    EXAMPLES.map(({ language, file, run, write }) => {
      const code = write({ companyId: COMPANY, url: `${ORIGIN}/api/events/ingest` })
      const heading = `### ${language}\n\nSave this as \`${file}\`, then run \`SIGNING_SECRET=whsec_… ${run}\`.`
      return `${heading}\n\n\`\`\`${LANGUAGES[language]}\n${code}\`\`\``
    }).join('\n\n'),
}
const titleOf = (category: string) => category.replace(/^./, (letter) => letter.toUpperCase())
const inCode = (words: readonly string[]) => words.map((word) => `\`${word}\``).join(' ')
/** The first column is code. */
const toTable = (head: string[], rows: string[][]) =>
  [head, head.map(() => '---'), ...rows.map(([code = '', ...cells]) => [inCode([code]), ...cells])]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n')
const COMPANY = '01890a5d-ac96-774b-bcce-b302099a8057'
const LANGUAGES: Record<string, string> = { curl: 'sh', Node: 'js', Python: 'py', Go: 'go' }

const GUIDES_OF_CODES: Record<string, string> = {
  invalid_signature: '[When a request is refused](/docs/events#when-a-request-is-refused)',
  event_id_conflict: '[The event](/docs/events#the-event)',
  refresh_token_reused: '[Refresh](/docs/sign-in#refresh)',
  session_ended: '[Sign out](/docs/sign-in#sign-out)',
  reauthentication_required: "[Confirm it's you](/docs/sign-in#confirm-it-s-you)",
  second_factor_required: '[Sign in with two factors](/docs/two-factor#sign-in-with-two-factors)',
  second_factor_enrolment_required:
    '[Require it from your company](/docs/two-factor#require-it-from-your-company)',
  session_changed: '[Several tabs and accounts](/docs/browsers#several-tabs-and-accounts)',
  rate_limited: '[Limits](/docs/limits)',
}

function sectionOfCode([code, [status, , title]]: [string, (typeof catalogue)[ProblemCode]]): string {
  const guide = GUIDES_OF_CODES[code]
  const meaning = `**${status} ${title}.** ${CODES[code as ProblemCode]}`
  return `### ${code}\n\n${meaning}${guide ? ` See ${guide}.` : ''}`
}

const escapeHtml = (text: string) => text.replace(/[&<>"]/g, (one) => `&#${one.charCodeAt(0)};`)
const idOf = (heading: string) =>
  plainOf(heading)
    .toLowerCase()
    .replace(/[^\w]+/g, '-')
    .replace(/^-|-$/g, '')

/** Headings can be linked to, and code can be scrolled by keyboard. */
function toHtml(markdown: string): string {
  const used = new Set<string>()
  const renderer: RendererObject = {
    heading({ text, tokens, depth }) {
      const inner = this.parser.parseInline(tokens)
      if (depth === 1) return `<h1>${inner}</h1>`
      let id = idOf(text)
      // The changelog repeats headings.
      while (used.has(id)) id += '-'
      used.add(id)
      return `<h${depth} id="${id}"><a href="#${id}">${inner}</a></h${depth}>`
    },
    code: ({ text }) => `<div class="example"><pre tabindex="0"><code>${escapeHtml(text)}</code></pre></div>`,
  }
  return new Marked({ renderer }).parse(markdown, { async: false })
}

function pageOf(guide: Guide, guides: Guide[], headOf: (head: Head) => string, mark: string): string {
  const { title, description } = guide
  return `<!doctype html>
<html lang="en">
<head>
${headOf({ title: `${title} – gatehouse docs`, description })}
</head>
<body class="docs">
<a class="skip" href="#content">Skip to content</a>
<header class="bar">
<p class="brand"><a href="/docs"><svg class="mark" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">${mark}</svg> gatehouse docs</a></p>
<button type="button" class="small" popovertarget="guides">Menu</button>
<a class="who" href="/">Sign in</a>
</header>
${navigationOf(guide, guides)}
${articleOf(guide, guides)}
</body>
</html>
`
}

/** A popover on small screens, which CSS shows in place on large ones. */
function navigationOf({ path: current }: Guide, guides: Guide[]): string {
  const link = ({ path, title }: Guide) =>
    `<li><a href="${path}"${path === current ? ' aria-current="page"' : ''}>${title}</a></li>`
  const sections = Object.entries(SECTIONS).map(([section, names]) => {
    const links = guides.filter(({ name }) => names.includes(name)).map(link)
    return `<p>${section}</p>\n<ul>${links.join('')}</ul>`
  })
  return `<nav id="guides" popover aria-label="Guides">\n${sections.join('\n')}\n</nav>`
}

function articleOf({ name, markdown }: Guide, guides: Guide[]): string {
  const headings = [...markdown.replace(/^```[\s\S]*?^```/gm, '').matchAll(/^## (.+)$/gm)].map(
    ([, text = '']) => text,
  )
  const toc = headings.map((text) => `<li><a href="#${idOf(text)}">${plainOf(text)}</a></li>`)
  const at = NAMES.indexOf(name)
  const turns = [
    ['prev', 'Previous', guides[at - 1]],
    ['next', 'Next', guides[at + 1]],
  ] as const
  const links = turns.flatMap(([rel, label, to]) =>
    to ? [`<a rel="${rel}" href="${to.path}"><span>${label}</span> ${to.title}</a>`] : [],
  )
  return `<main id="content" class="guide">
${toHtml(markdown)}
<footer>${links.join('')}</footer>
</main>
<nav class="toc" aria-label="On this page">${toc.length > 1 ? `<p>On this page</p>\n<ul>${toc.join('')}</ul>` : ''}</nav>`
}
