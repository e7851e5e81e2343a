/** Renders a letter as plain text and as HTML. Text that a user chose is escaped and never becomes markup. */

export interface Letter {
  /** The name in the greeting. */
  name: string
  subject: string
  paragraphs: string[]
  /** Rendered after the first paragraph. */
  link?: { label: string; url: string }
}

export interface RenderedLetter {
  subject: string
  text: string
  html: string
}

export function renderLetter({ name, subject, paragraphs, link }: Letter): RenderedLetter {
  const [first = '', ...rest] = paragraphs
  const text = [`Hello ${name},`, first, ...(link ? [`${link.label}:\n${link.url}`] : []), ...rest]
  const html = [
    paragraph(`Hello ${name},`),
    paragraph(first),
    ...(link
      ? [
          `<p><a href="${escapeHtml(link.url)}" style="${BUTTON}">${escapeHtml(link.label)}</a></p>`,
          `<p style="font-size:13px">Or open this address: <span style="word-break:break-all">${escapeHtml(link.url)}</span></p>`,
        ]
      : []),
    ...rest.map(paragraph),
  ]
  return {
    // Mail programs would decode an encoded word (RFC 2047) that a user chose.
    subject: subject.replaceAll('=?', '= ?'),
    text: `${text.join('\n\n')}\n`,
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>${escapeHtml(subject)}</title></head>
<body style="font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:2em auto;padding:0 1em">
${html.join('\n')}
</body>
</html>
`,
  }
}

const BUTTON =
  'display:inline-block;padding:0.5em 1em;border-radius:6px;background:#1d4ed8;color:#ffffff;text-decoration:none'

function paragraph(text: string): string {
  return `<p>${escapeHtml(text)}</p>`
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
