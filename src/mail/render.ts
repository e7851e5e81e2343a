/** Renders letters as plain text and HTML. Text that a user chose is escaped and never becomes markup. */

export interface Letter {
  name: string | undefined
  subject: string
  paragraphs: string[]
  links?: { label: string; url: string }[]
}

export function renderLetter({ name, subject, paragraphs, links = [] }: Letter) {
  const [first = '', ...rest] = paragraphs
  const greeting = name === undefined ? 'Hello,' : `Hello ${name},`
  const text = [greeting, first, ...links.map(({ label, url }) => `${label}:\n${url}`), ...rest]
  const html = [
    paragraph(greeting),
    paragraph(first),
    ...links.flatMap(({ label, url }) => [
      `<p><a href="${escapeHtml(url)}" style="${BUTTON}">${escapeHtml(label)}</a></p>`,
      `<p style="font-size:13px">Or open this address: <span style="word-break:break-all">${escapeHtml(url)}</span></p>`,
    ]),
    ...rest.map(paragraph),
  ]
  return {
    // Mail programs would decode an encoded word (RFC 2047) that a user chose.
    subject: subject.replaceAll('=?', '= ?'),
    text: `${text.join('\n\n')}\n`,
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="color-scheme" content="light dark">${NO_LINKS}<title>${escapeHtml(subject)}</title></head>
<body style="font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:2em auto;padding:0 1em">
${html.join('\n')}
</body>
</html>
`,
  }
}

/** Else Apple's mail programs make links of what looks like a telephone number or a place. */
const NO_LINKS = '<meta name="format-detection" content="telephone=no,date=no,address=no,email=no,url=no">'

const BUTTON =
  'display:inline-block;padding:0.5em 1em;border-radius:6px;background:#1d4ed8;color:#ffffff;text-decoration:none'

function paragraph(text: string): string {
  return `<p>${escapeHtml(text)}</p>`
}

/** What joins the parts of a URL, a domain (UTS 46) or an e-mail, before a visible character. */
const JOINS = /[.\u3002\uff0e\uff61@\uff20:\uff1a](?=[^\s\u200a])/g

/** For text that a user chose. A hair space, unlike a zero-width one, ends a word for every mail program. */
export function withoutLinks(text: string): string {
  return text.replace(JOINS, '$&\u200a')
}

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '')
}
