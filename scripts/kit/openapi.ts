import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import { buildApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config/config.ts'
import type { Database } from '../../src/database/schema.ts'
import { createRegistry } from '../../src/http/metrics.ts'
import { createLimitedHasher } from '../../src/limits/admission.ts'
import { realSystem } from '../../src/system.ts'

/** The OpenAPI documents of both listeners, as JSON. Needs no database: every statement returns no rows. */
export async function readOpenApi(variables: NodeJS.ProcessEnv): Promise<{ api: string; platform: string }> {
  const config = loadConfig(
    {
      PUBLIC_URL: 'https://auth.example.com',
      ...variables,
      // The documents do not describe the pages, so the pages need not be built.
      PAGES_URL: 'https://app.example.com',
      MASTER_KEYS: `docs:${realSystem.randomBytes(32).toString('base64')}`,
      MASTER_KEYS_FILE: '',
      LOG_LEVEL: 'silent',
    },
    [],
  )
  const dialect = {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db: Kysely<Database>) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  }
  const db = new Kysely<Database>({ dialect })
  const { app, platform } = await buildApp({
    config,
    db,
    auditDb: db,
    system: realSystem,
    hasher: await createLimitedHasher(1),
    registry: createRegistry(),
  })
  try {
    return {
      api: (await app.inject('/api/openapi.json')).body,
      platform: (await platform.inject('/openapi.json')).body,
    }
  } finally {
    await Promise.all([app.close(), platform.close()])
  }
}
