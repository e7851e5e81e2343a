/** Finds variables that are one letter, or only case, away from a known one. Other unknown names are the platform's. */

/** Shorter names are one letter away from too many others, such as PORT from PORTS. */
const MIN_LENGTH = 8

/** Kubernetes and Docker name such variables after services: OPA_PORT=tcp://10.96.0.7:8181. */
const SERVICE_LINK = /^(?:tcp|udp|sctp):\/\//

/** Whether this is such a variable, and not one of ours. */
export function isServiceLink(name: string, value = ''): boolean {
  return name.endsWith('_PORT') && SERVICE_LINK.test(value)
}

/** Variables of the environment win over those of .env. */
export function mergeVariables(below: NodeJS.Dict<string>, env: NodeJS.Dict<string>): NodeJS.Dict<string> {
  const own = Object.entries(env).filter(([name, value]) => !(name in below && isServiceLink(name, value)))
  return { ...below, ...Object.fromEntries(own) }
}

export function misspeltNames(env: Record<string, string | undefined>, known: readonly string[]): string[] {
  return Object.entries(env).flatMap(([name, value = '']) => {
    if (name.length < MIN_LENGTH || known.includes(name) || SERVICE_LINK.test(value)) return []
    const meant = known.filter((one) => name.toUpperCase() === one || isOneLetterAway(name, one))
    return meant.length > 0 ? [`${name}: is not known; did you mean ${meant.join(' or ')}?`] : []
  })
}

function isOneLetterAway(name: string, known: string): boolean {
  let same = 0
  while (same < name.length && name[same] === known[same]) same += 1
  const [rest, knownRest] = [name.slice(same), known.slice(same)]
  const isSwapped = rest[0] === knownRest[1] && rest[1] === knownRest[0]
  return (
    rest.slice(1) === knownRest ||
    rest === knownRest.slice(1) ||
    rest.slice(1) === knownRest.slice(1) ||
    (isSwapped && rest.slice(2) === knownRest.slice(2))
  )
}
