import { render } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { CodeTabs } from '../code-tabs.tsx'
import { type Api, type Media, type Operation, type Schema, schemesOf } from './api.ts'
import { samplesOf } from './samples.ts'

/** The API reference: the OpenAPI document of this deployment, one section per tag. */

export async function showReference(root: Element): Promise<void> {
  const response = await fetch('/api/openapi.json').catch(() => null)
  const api: Api | null = response?.ok ? await response.json() : null
  const isLost = <p class="error">The reference didn't load. Reload the page, or read openapi.json.</p>
  render(api ? <Reference api={api} /> : isLost, root)
}

function Reference({ api }: { api: Api }) {
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  )
  return api.tags.map(({ name, description }) => (
    <section key={name}>
      <h2 id={name.replaceAll(' ', '-')}>
        {name.replace('-', ' ').replace(/^./, (one) => one.toUpperCase())}
      </h2>
      <p class="quiet">{description}</p>
      {operations
        .filter(({ operation }) => operation.tags.includes(name))
        .map((one) => (
          <Endpoint key={one.operation.operationId} api={api} {...one} />
        ))}
    </section>
  ))
}

interface EndpointProps {
  api: Api
  path: string
  method: string
  operation: Operation
}

/** Its fragment opens it. */
function Endpoint(props: EndpointProps) {
  const { path, method, operation } = props
  const { operationId, summary } = operation
  const isWanted = () => location.hash === `#${operationId}`
  const [isOpen, setOpen] = useState(isWanted)
  const element = useRef<HTMLDetailsElement>(null)
  useEffect(() => {
    const follow = () => {
      if (!isWanted()) return
      setOpen(true)
      element.current?.scrollIntoView()
    }
    follow()
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])

  function toggle(): void {
    const isNow = element.current?.open === true
    if (isNow && !isOpen) history.replaceState(null, '', `#${operationId}`)
    setOpen(isNow)
  }

  return (
    <details class="endpoint" id={operationId} open={isOpen} ref={element} onToggle={toggle}>
      <summary>
        <h3>{summary}</h3>
        <code>
          <b>{method.toUpperCase()}</b> {path}
        </code>
      </summary>
      {isOpen && <Details {...props} />}
    </details>
  )
}

const CREDENTIALS: Record<string, string> = {
  accessToken: 'an access token',
  sessionCookie: 'the session cookie',
  refreshToken: 'a refresh token',
  servicePassword: 'a service password',
  signature: 'a signature',
}

function Details({ api, path, method, operation }: EndpointProps) {
  const { operationId, description, security, requestBody, responses } = operation
  const credentials = schemesOf(security).map((name) => CREDENTIALS[name])
  const parameters = (operation.parameters ?? []).map((one) =>
    '$ref' in one ? api.components.parameters[nameOf(one.$ref)] : one,
  )
  const named = parameters.flatMap((one): Field[] =>
    one ? [{ ...one, isRequired: one.required === true, type: `${typeOf(one.schema)}, ${one.in}` }] : [],
  )
  const body = requestBody?.content['application/json']
  const answers = Object.entries(responses)
  const codes = answers.flatMap(([status, { content }]) =>
    Object.keys(content?.['application/problem+json']?.examples ?? {}).map((code) => ({ status, code })),
  )
  return (
    <>
      {description && <p>{inline(description)}</p>}
      <p>Requires {credentials.join(' or ') || 'no credential'}.</p>
      <Fields title="Parameters" fields={named} />
      <Fields
        title={requestBody?.required === false ? 'Body (optional)' : 'Body'}
        fields={body ? fieldsOf(body.schema, api) : []}
      />
      <h4 id={`${operationId}-request`}>Request</h4>
      <CodeTabs codes={samplesOf(api, path, method, operation)} labelledBy={`${operationId}-request`} />
      {answers
        .filter(([status]) => status < '300')
        .map(([status, { content = {} }]) => (
          <Success key={status} title={`Response ${status}`} media={content['application/json']} api={api} />
        ))}
      <h4>Errors</h4>
      <ul class="codes">
        {codes.map(({ status, code }) => (
          <li key={status + code}>
            {status} <a href={`/docs/errors#${code}`}>{code}</a>
          </li>
        ))}
      </ul>
    </>
  )
}

function Success({ title, media, api }: { title: string; media: Media | undefined; api: Api }) {
  if (!media) return <h4>{title}, without a body</h4>
  return (
    <>
      <h4>{title}</h4>
      <div class="example">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard */}
        <pre tabIndex={0}>
          <code>{JSON.stringify(media.example, null, 2)}</code>
        </pre>
      </div>
      <Fields title="Fields of the response" fields={fieldsOf(media.schema, api)} />
    </>
  )
}

interface Field {
  name: string
  type: string
  isRequired: boolean
  description?: string | undefined
}

function Fields({ title, fields }: { title: string; fields: Field[] }) {
  if (fields.length === 0) return null
  return (
    <table>
      <caption>{title}</caption>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Description</th>
        </tr>
      </thead>
      <tbody>
        {fields.map(({ name, type, isRequired, description = '' }) => (
          <tr key={name}>
            <td>
              <code>{name}</code>
            </td>
            <td>
              {inline(description)}
              <div class="quiet">
                {type}
                {isRequired && ', required'}
              </div>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

const nameOf = (reference: string) => reference.split('/').at(-1) ?? ''

/** All fields, nested ones by their path, such as `user.email` and `events[].id`. Forms of a union come together. */
function fieldsOf(schema: Schema, api: Api, prefix = ''): Field[] {
  const { properties = {}, required = [], items, anyOf = [], $ref } = schema
  if ($ref) return fieldsOf(api.components.schemas[nameOf($ref)] ?? {}, api, prefix)
  if (items) return fieldsOf(items, api, prefix.replace(/\.$/, '[].'))
  const fields = Object.entries(properties).flatMap(([name, one]) => [
    {
      name: prefix + name,
      type: typeOf(one),
      isRequired: required.includes(name),
      description: one.description,
    },
    ...fieldsOf(one, api, `${prefix}${name}.`),
  ])
  const ofForms = anyOf.flatMap((form) => fieldsOf(form, api, prefix))
  return [...new Map([...fields, ...ofForms].map((field) => [field.name, field])).values()]
}

function typeOf({ type = '', format, enum: values, items, anyOf, $ref }: Schema): string {
  if ($ref) return 'object'
  if (values) return values.join(' | ')
  if (anyOf) return [...new Set(anyOf.map(typeOf))].join(' or ')
  if (items) return `array of ${typeOf(items)}`
  return format ? `${type} (${format})` : type
}

/** With code between backticks. */
function inline(text: string) {
  return text.split('`').map((part, index) => (index % 2 === 1 ? <code key={`${index}`}>{part}</code> : part))
}
