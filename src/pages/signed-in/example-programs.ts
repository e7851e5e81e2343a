/** Programs that send one signed event. Each uses only its language's standard library. */

interface Example {
  language: string
  file: string
  run: string
  write(target: { companyId: string; url: string }): string
}

export const EXAMPLES: Example[] = [
  {
    language: 'curl',
    file: 'send.sh',
    run: 'bash send.sh',
    write: ({ companyId, url }) => `#!/bin/bash
# Needs openssl.
[[ $SIGNING_SECRET == whsec_* ]] || { echo 'Set SIGNING_SECRET to your secret, whsec_…' >&2; exit 1; }
id="msg_$(openssl rand -hex 12)"
timestamp="$(date +%s)"
body='{"type":"payment.created","data":{"amount":42}}'
key="$(printf %s "\${SIGNING_SECRET#whsec_}" |
  openssl base64 -d -A | od -An -v -tx1 | tr -d ' \\n')"
signature="$(printf %s "$id.$timestamp.$body" |
  openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)"
curl -sS '${url}' \\
  -H 'content-type: application/json' \\
  -H 'x-company-id: ${companyId}' \\
  -H "webhook-id: $id" \\
  -H "webhook-timestamp: $timestamp" \\
  -H "webhook-signature: v1,$signature" \\
  -d "$body" -w ' %{http_code}\\n'
`,
  },
  {
    language: 'Node',
    file: 'send.mjs',
    run: 'node send.mjs',
    write: ({ companyId, url }) => `import { createHmac, randomUUID } from 'node:crypto'

const secret = process.env.SIGNING_SECRET
if (!secret?.startsWith('whsec_')) throw new Error('Set SIGNING_SECRET to your secret, whsec_…')
const key = Buffer.from(secret.replace('whsec_', ''), 'base64')
const id = \`msg_\${randomUUID()}\`
const timestamp = String(Math.floor(Date.now() / 1000))
const body = JSON.stringify({ type: 'payment.created', data: { amount: 42 } })
const signature = createHmac('sha256', key).update(\`\${id}.\${timestamp}.\${body}\`).digest('base64')

const answer = await fetch('${url}', {
  method: 'POST',
  headers: {
    'content-type': 'application/json',
    'x-company-id': '${companyId}',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': \`v1,\${signature}\`,
  },
  body,
})
console.log(answer.status, await answer.text())
`,
  },
  {
    language: 'Python',
    file: 'send.py',
    run: 'python3 send.py',
    write: ({
      companyId,
      url,
    }) => `import base64, hashlib, hmac, json, os, time, urllib.error, urllib.request, uuid

secret = os.environ.get("SIGNING_SECRET", "")
if not secret.startswith("whsec_"):
    raise SystemExit("Set SIGNING_SECRET to your secret, whsec_…")
key = base64.b64decode(secret.removeprefix("whsec_"))
id = f"msg_{uuid.uuid4()}"
timestamp = str(int(time.time()))
body = json.dumps({"type": "payment.created", "data": {"amount": 42}}).encode()
signature = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()

request = urllib.request.Request("${url}", body, {
    "content-type": "application/json",
    "x-company-id": "${companyId}",
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": "v1," + base64.b64encode(signature).decode(),
})
try:
    answer = urllib.request.urlopen(request)
except urllib.error.HTTPError as refusal:
    answer = refusal
print(answer.status, answer.read().decode())
`,
  },
  {
    language: 'Go',
    file: 'send.go',
    run: 'go run send.go',
    write: ({ companyId, url }) => `package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	secret := os.Getenv("SIGNING_SECRET")
	if !strings.HasPrefix(secret, "whsec_") {
		panic("Set SIGNING_SECRET to your secret, whsec_…")
	}
	key, err := base64.StdEncoding.DecodeString(secret[len("whsec_"):])
	if err != nil {
		panic(err)
	}
	random := make([]byte, 12)
	rand.Read(random)
	id := fmt.Sprintf("msg_%x", random)
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	body := []byte(\`{"type":"payment.created","data":{"amount":42}}\`)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)

	request, _ := http.NewRequest("POST", "${url}", bytes.NewReader(body))
	request.Header.Set("content-type", "application/json")
	request.Header.Set("x-company-id", "${companyId}")
	request.Header.Set("webhook-id", id)
	request.Header.Set("webhook-timestamp", timestamp)
	request.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	text, _ := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, string(text))
}
`,
  },
]
