import { EXAMPLES } from '../signed-in/example-programs.ts'
import { type Api, type Operation, schemesOf } from './api.ts'

/** Code for an operation of the OpenAPI document, in four languages. Each uses only its language's standard library. */

interface Sample {
  language: string
  source: string
}

interface Request {
  method: string
  url: string
  /** The environment variable with the token. */
  token: 'ACCESS_TOKEN' | 'REFRESH_TOKEN' | undefined
  headers: Record<string, string>
  /** JSON. */
  body: string | undefined
}

export function samplesOf({ servers }: Api, path: string, method: string, operation: Operation): Sample[] {
  const { security, parameters = [], requestBody } = operation
  const [{ url: server }] = servers
  const schemes = schemesOf(security)
  const required = parameters.flatMap((one) => ('name' in one && one.required ? [one] : []))
  if (schemes.includes('signature')) {
    const companyId = String(required.find(({ name }) => name === 'x-company-id')?.example)
    return EXAMPLES.map(({ language, write }) => ({
      language,
      source: write({ companyId, url: server + path }),
    }))
  }
  const filled = required.reduce(
    (text, { name, example }) => text.replace(`{${name}}`, String(example)),
    path,
  )
  const json = requestBody?.content['application/json']?.example
  const ofSession = schemes.length > 0 ? 'ACCESS_TOKEN' : undefined
  const key = parameters.find((one) => 'name' in one && one.name === 'idempotency-key')
  const request: Request = {
    method: method.toUpperCase(),
    url: server + filled,
    token: schemes.includes('refreshToken') ? 'REFRESH_TOKEN' : ofSession,
    headers: {
      ...(json !== undefined && { 'content-type': 'application/json' }),
      ...(key && 'name' in key && { 'idempotency-key': String(key.example) }),
    },
    body: json === undefined ? undefined : JSON.stringify(json, null, 2),
  }
  return [
    { language: 'curl', source: inCurl(request) },
    { language: 'Node', source: inNode(request) },
    { language: 'Python', source: inPython(request) },
    { language: 'Go', source: inGo(request) },
  ]
}

function inCurl({ method, url, token, headers, body }: Request): string {
  const parts = [
    method === (body === undefined ? 'GET' : 'POST') ? `curl ${url}` : `curl -X ${method} ${url}`,
    ...(token ? [`-H "authorization: Bearer $${token}"`] : []),
    ...Object.entries(headers).map(([name, value]) => `-H '${name}: ${value}'`),
    ...(body === undefined ? [] : [`-d '${body.replaceAll("'", "'\\''")}'`]),
  ]
  return parts.join(' \\\n  ')
}

function inNode({ method, url, token, headers, body }: Request): string {
  const lines = [
    ...(token ? [`authorization: \`Bearer \${process.env.${token}}\``] : []),
    ...Object.entries(headers).map(([name, value]) => `'${name}': '${value}'`),
  ]
  const options = [
    `  method: '${method}',\n`,
    lines.length > 0 ? `  headers: {\n${lines.map((line) => `    ${line},\n`).join('')}  },\n` : '',
    body === undefined ? '' : `  body: JSON.stringify(${body.replaceAll('\n', '\n  ')}),\n`,
  ].join('')
  return `const response = await fetch('${url}', {\n${options}})\nconsole.log(response.status, await response.text())\n`
}

function inPython({ method, url, token, headers, body }: Request): string {
  const lines = [
    ...(token ? [`"authorization": "Bearer " + os.environ["${token}"]`] : []),
    ...Object.entries(headers).map(([name, value]) => `"${name}": "${value}"`),
  ]
  const given = lines.length > 0 ? `, headers={\n${lines.map((line) => `    ${line},\n`).join('')}}` : ''
  return `import ${token ? 'os, ' : ''}urllib.request

request = urllib.request.Request("${url}", method="${method}"${given})
${body === undefined ? '' : `request.data = r"""${body}""".encode()\n`}with urllib.request.urlopen(request) as response:
    print(response.status, response.read().decode())
`
}

function inGo({ method, url, token, headers, body }: Request): string {
  const imports = ['fmt', 'io', 'net/http']
  if (token) imports.push('os')
  if (body !== undefined) imports.push('strings')
  const reader = body === undefined ? 'nil' : `strings.NewReader(\`${body}\`)`
  const lines = [
    ...(token ? [`"authorization", "Bearer "+os.Getenv("${token}")`] : []),
    ...Object.entries(headers).map(([name, value]) => `"${name}", "${value}"`),
  ]
  return `package main

import (
${imports.map((name) => `\t"${name}"`).join('\n')}
)

func main() {
\trequest, _ := http.NewRequest("${method}", "${url}", ${reader})
${lines.map((line) => `\trequest.Header.Set(${line})\n`).join('')}\tresponse, err := http.DefaultClient.Do(request)
\tif err != nil {
\t\tpanic(err)
\t}
\ttext, _ := io.ReadAll(response.Body)
\tfmt.Println(response.StatusCode, string(text))
}
`
}
