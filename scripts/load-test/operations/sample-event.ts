import { randomBytes } from 'node:crypto'

/** An event of about 500 bytes. */
export const SAMPLE_EVENT = {
  type: 'payment.created',
  occurredAt: '2026-01-01T12:00:00.000Z',
  data: {
    amount: 1250,
    currency: 'EUR',
    card: { bin: '411111', last4: '1111', country: 'DE', funding: 'credit' },
    customer: { id: 'cus_9s6XKzkNRiz8i3', email: 'ada@customer.example', createdAt: '2024-05-05T05:05:05Z' },
    device: { ip: '203.0.113.7', userAgent: 'Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0' },
    shipping: { line1: '1 Example Street', city: 'Berlin', postalCode: '10115', country: 'DE' },
  },
}

/** Starts all event ids of this run, so that they differ from those of other runs on the same database. */
export const EVENT_ID_PREFIX = randomBytes(6).toString('hex')
