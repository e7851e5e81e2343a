import type { TestProject } from 'vitest/node'
import { readOpenApi } from '../../scripts/kit/openapi.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The documents of both listeners, as JSON. */
    openapi: { api: string; platform: string }
  }
}

export default async function setup(project: TestProject): Promise<void> {
  // A linter refuses localhost and example.com.
  project.provide('openapi', await readOpenApi({ PUBLIC_URL: 'https://auth.gatehouse.test' }))
}
