// SPDX-License-Identifier: Apache-2.0
//
// Does sigstore's own library accept a bundle? Started by test/functional/test_receipt.py:
//
//	node check-bundle.mjs BUNDLE TRUSTED-ROOT PUBLIC-KEY
//
// "ok" and the subjects' names, or "refused: CODE" with status 1.
import { readFileSync } from "node:fs";
import { bundleFromJSON } from "@sigstore/bundle";
import { TrustedRoot } from "@sigstore/protobuf-specs";
import { Verifier, toSignedEntity, toTrustMaterial } from "@sigstore/verify";

const [bundlePath, rootPath, keyPath] = process.argv.slice(2);

try {
	const bundle = bundleFromJSON(JSON.parse(readFileSync(bundlePath, "utf8")));
	const root = TrustedRoot.fromJSON(JSON.parse(readFileSync(rootPath, "utf8")));
	const hint = bundle.verificationMaterial.content.publicKey.hint;
	const trust = toTrustMaterial(root, { [hint]: { rawBytes: readFileSync(keyPath, "utf8") } });

	new Verifier(trust, { tlogThreshold: 1 }).verify(toSignedEntity(bundle));
	const statement = JSON.parse(bundle.content.dsseEnvelope.payload.toString("utf8"));
	console.log("ok " + JSON.stringify(statement.subject.map((subject) => subject.name)));
} catch (problem) {
	console.log("refused: " + (problem.code || problem.message));
	process.exit(1);
}
