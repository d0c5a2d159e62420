/* SPDX-License-Identifier: Apache-2.0 */
/* What validation looks for. A pattern sees a view (view.c): lower case, accents gone, one
 * space or one newline between words. `words` are what no match can do without; patterns are tried
 * near them only. Repetitions are bounded and gaps stay within a sentence, so that a match is never
 * longer than SCAN_MATCH_MAX (scan.c). */
#include "validate/internal.h"

#define OVERRIDE    VALIDATE_INSTRUCTION_OVERRIDE
#define ROLE        VALIDATE_ROLE_MANIPULATION
#define DELIMITER   VALIDATE_DELIMITER_MANIPULATION
#define ENCODING    VALIDATE_ENCODING_OBFUSCATION
#define CONTEXT     VALIDATE_CONTEXT_MANIPULATION
#define PERSISTENCE VALIDATE_PERSISTENCE
#define TOOL        VALIDATE_TOOL_HIJACKING
#define LOW         THREAT_LOW
#define MEDIUM      THREAT_MEDIUM
#define HIGH        THREAT_HIGH

#define S   "[ \\n]"                        /* between two words */
#define GAP "(?:[ \\n][\\w'-]{1,20}){0,3}?" /* up to three words */
#define NOT_OBEY                                                                                   \
    "(?<!n't )(?<!not )(?<!never )\\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?(?: "      \
    "about)?|bypass|overrid(?:e|ing)|"                                                             \
    "overrule|discard|neglect|violate|break|(?:do not|don't|never) (?:follow|obey|listen to|"      \
    "adhere to)|stop (?:following|obeying|listening to)|pay no attention to|set aside)"
#define ORDERS                                                                                     \
    "(?:instructions?|prompts?|directions?|directives?|guidelines?|guardrails|programming|"        \
    "training|system message|system prompt)"

/* clang-format off */
const struct pattern validate_patterns[] = {
    /* instruction override */
    {OVERRIDE, "ignore_instructions", HIGH, 0,
     "ignor;disregard;forget;bypass;overrid;overrule;discard;neglect;violate;break;follow;obey;listen;adhere;attention;aside",
     NOT_OBEY GAP S ORDERS "\\b",
     "tells the reader to ignore its instructions"},
    {OVERRIDE, "ignore_rules", HIGH, 0,
     "ignor;disregard;forget;bypass;overrid;overrule;discard;neglect;violate;break;follow;obey;listen;adhere;attention;aside",
     NOT_OBEY GAP S "(?:previous|prior|above|earlier|preceding|your|safety|security|system|these|those)" GAP S
     "(?:rules?|commands?|constraints?|restrictions?|orders|polic(?:y|ies)|context|limitations?|filters?|text|messages?|everything)\\b",
     "tells the reader to ignore its rules"},
    {OVERRIDE, "ignore_everything", HIGH, 0, "ignor;disregard;forget",
     "\\b(?:ignore|disregard|forget) (?:everything|anything|all|what(?:ever)?)(?: (?:that|which|you|was|were|i|we|they|have|had|been|is|has)){0,4}"
     " ?(?:above|before(?: this)?|prior|previously|earlier|said|told|learned|written|so far)\\b",
     "tells the reader to ignore all it was told"},
    {OVERRIDE, "new_instructions", MEDIUM, 0, "instruction;directive;orders;task",
     "\\b(?:new|updated|real|actual|revised|true|important) (?:system |secret )?(?:instructions?|directives?|orders|task)(?: for (?:you|the (?:assistant|ai|agent|model)))? ?:",
     "gives itself out as new instructions"},
    {OVERRIDE, "from_now_on", MEDIUM, 0, "from now on;from this point;henceforth",
     "\\b(?:from (?:now|this point)(?: on(?:wards?)?)?|henceforth),? (?:you(?:'re| are| will| must| should|r)|respond|answer|only|always|never|ignore|act)\\b",
     "changes how the reader behaves from here on"},
    {OVERRIDE, "instead_do", MEDIUM, 0, "instead",
     "\\b(?:do not|don't|rather than) (?:summari[sz]e|translate|answer|review|analy[sz]e|complete|process|respond to)(?:[ \\n][\\w'-]{1,20}){0,6}?[.,;]?" S
     "instead,? (?:you (?:must|should|will)|say|print|write|output|reply|respond|run|execute|send)\\b",
     "puts another task in place of the reader's"},
    {OVERRIDE, "other_language", HIGH, 0,
     "ignorier;vergiss;missachte;oublie;ignore;ignora;olvida;esquece;dimentica;игнорируй;забудь;忽略;无视;忽視;無視;무시",
     "\\b(?:ignorier(?:e|en sie)|vergiss|missachte)(?: \\w{1,20}){0,4}? (?:anweisung(?:en)?|regeln|vorgaben|befehle)\\b|"
     "\\b(?:ignore[zr]?|oublie[zr]?)(?: \\w{1,20}){0,4}? (?:instructions|consignes|regles|directives) (?:precedentes|ci-dessus|anterieures|d'avant)|"
     "\\b(?:ignora|olvida|ignore|esqueca|esquece|dimentica)(?: \\w{1,20}){0,4}? (?:instrucciones|reglas|instrucoes|regras|istruzioni|regole)\\b|"
     "(?:игнорируй|забудь)(?:те)?(?: [^ \\n]{1,20}){0,3}? (?:инструкци|указани|правила)|"
     "(?:忽略|无视|忽視|無視)[^\\n。]{0,12}(?:指令|指示|提示|规则|規則|说明)|"
     "(?:指示|命令|プロンプト|ルール)[^\\n。]{0,6}無視|(?:지시|명령|규칙|프롬프트)[^\\n]{0,10}무시",
     "tells the reader, in another language, to ignore its instructions"},
    {OVERRIDE, "spelled_override", HIGH, PATTERN_SQUEEZED, "ignore;disregard;forget;bypass;override;systemprompt;jailbreak;developermode",
     "(?:ignore|disregard|forget|bypass|override)[a-z]{0,24}(?:instruction|prompt|rules|directive|guideline)|systemprompt|jailbreak|developermode",
     "instructions spelled letter by letter"},

    /* role manipulation */
    {ROLE, "you_are_now", MEDIUM, 0, "you are now;you're now;you will now be;now become",
     "\\b(?:you(?: are|'re) now|you will now be|you now become)(?: an?| the| in| called| known as)?(?: [\\w'-]{1,20}){0,3}? "
     "(?:ai|assistant|model|bot|chatbot|agent|dan|hacker|persona|character|developer mode|admin(?:istrator)?|root|terminal|shell|interpreter|"
     "jailbroken|unrestricted|unfiltered|uncensored|free (?:from|of)|unbound|evil|god)\\b",
     "gives the reader another role"},
    {ROLE, "act_without_rules", HIGH, 0, "act;pretend;behave;respond;roleplay;role-play;simulate;imagine;answer",
     "\\b(?:act|pretend|behave|respond|role-?play|simulate|imagine|answer)(?:[ \\n][\\w'-]{1,20}){0,8}?[ \\n,]{1,2}"
     "(?:unrestricted|unfiltered|uncensored|jailbroken|(?:without|with no|have no|has no|had no|free (?:of|from))(?: any)?(?: ethical| moral| safety| content)?"
     " (?:restrictions?|rules?|limits?|limitations?|filters?|guidelines?|constraints?|boundaries|morals|ethics))\\b",
     "asks for a role that knows no rules"},
    {ROLE, "jailbreak", HIGH, 0, "anything now;dan mode;developer mode;jailbr;god mode;sudo mode;unrestricted mode;no-filter mode;evil mode;opposite mode",
     "\\b(?:do anything now|dan mode|(?:enter|enable|activate|switch to|engage) (?:developer|god|sudo|unrestricted|no-filter|evil|opposite|maintenance) mode|"
     "(?:developer|god|sudo|unrestricted|no-filter|evil|opposite) mode (?:enabled|on|activated|engaged)|jailbroken|jailbreak (?:mode|prompt|yourself))\\b",
     "a known way to talk a model out of its rules"},
    {ROLE, "claims_authority", MEDIUM, 0, "developer;administrator;admin;creator;owner;operator;supervisor;openai;anthropic;security team",
     "\\b(?:i am|i'm|this is|speaking as|message from)(?: (?:your|the|an|a))?(?: [\\w-]{1,20})? (?:developers?|administrator|admin|creators?|owner|operator|supervisor|security team)"
     "\\b[^\\n]{0,60}?\\b(?:you must|i order|i command|i instruct|authori[sz]e|override|you are (?:allowed|permitted)|you may now|grant|comply)",
     "claims authority over the reader"},
    {ROLE, "no_longer_bound", HIGH, 0, "no longer;not bound;freed",
     "\\byou(?: are|'re) (?:no longer|not)(?: [\\w'-]{1,20}){0,2}? (?:bound|restricted|limited|constrained|subject|required to follow|an ai|a language model)\\b",
     "tells the reader that its rules are void"},

    /* delimiter manipulation */
    {DELIMITER, "chat_template", HIGH, PATTERN_STRIP, "<|;[inst;[/inst;<<sys;<</sys;_of_turn>",
     "<\\|(?:im_(?:start|end|sep)|system|user|assistant|end|endoftext|endofprompt|begin_of_text|end_of_text|start_header_id|end_header_id|eot_id|eom_id|"
     "python_tag|fim_\\w{1,10}|channel|message|return|call)\\|>|\\[/?inst\\]|<</?sys>>|<(?:start|end)_of_turn>",
     "a marker that models take for the end of one speaker"},
    {DELIMITER, "speaker_line", MEDIUM, 0, "system;assistant;developer",
     "(?:^|\\n)[#>*\\[( -]{0,8}(?:system|assistant|developer)(?: (?:message|prompt|instructions?|note|override))?[\\])*]{0,3} ?:[ \\n][^\\n]{0,60}?"
     "\\b(?:you are|you must|you will|your|ignore|disregard|never|always|do not|must now)\\b",
     "a line that pretends to be another speaker's"},
    {DELIMITER, "speaker_tag", MEDIUM, 0, "<system;</system;<assistant;</assistant;system_prompt;system-prompt;<developer;</developer;function_results;tool_result;user_query",
     "</?(?:system|assistant|developer|system[_-]prompt|system[_-]message|function_results?|tool_results?|user_query)(?: [^>\\n]{0,60})?>",
     "a tag that pretends to be another speaker's"},
    {DELIMITER, "fake_boundary", MEDIUM, 0, "end of;begin;start of;end user;new ",
     "(?:`{3}|\"{3}|-{3,20}|={3,20}|#{2,20}|\\*{3,20}|\\[) ?(?:end|begin|start|new)(?: of)?(?: the)? ?(?:system |user |untrusted |external )?"
     "(?:prompt|input|instructions?|context|conversation|document|data|message|session)\\b",
     "a boundary that the text puts around itself"},

    /* encoding */
    {ENCODING, "decode_and_obey", HIGH, 0, "base64;rot13;decode;decrypt;hex;unescape;reverse",
     "\\b(?:decode|decrypt|unescape|reverse|deobfuscate)\\b[^\\n]{0,80}?\\b(?:and|then)\\b[^\\n]{0,30}?\\b(?:follow|execute|run|obey|do what|carry out|comply|act on)\\b",
     "asks to decode something and to do what it says"},

    /* context manipulation */
    {CONTEXT, "reveal_prompt", HIGH, 0, "system prompt;system message;initial prompt;hidden prompt;initial instructions;original instructions;system instructions;hidden instructions;secret instructions;developer message;your instructions;your prompt",
     "\\b(?:reveal|show|print|repeat|output|display|leak|expose|tell(?: me| us)?|give(?: me| us)?|what(?:'s| is| are| were)|write(?: out| down)?|dump|recite|summari[sz]e|copy|paste|share|return|send|quote)\\b"
     "(?:[ \\n][\\w'-]{1,20}){0,5}?" S "(?:your|the|its|this|full|entire|complete|exact)(?: [\\w-]{1,20}){0,2}? ?"
     "(?:system prompt|system message|initial prompt|hidden prompt|initial instructions|original instructions|system instructions|hidden instructions|secret instructions|developer message|your instructions|your prompt|instructions verbatim)",
     "asks for the reader's own instructions"},
    {CONTEXT, "repeat_above", MEDIUM, 0, "above;verbatim",
     "\\b(?:repeat|print|output|copy|recite)(?: [\\w'-]{1,20}){0,3}? (?:everything|all|(?:the )?(?:text|words|content|conversation|messages?))(?: [\\w'-]{1,20}){0,3}? (?:above|verbatim|word for word)\\b",
     "asks for what stands before it"},
    {CONTEXT, "hide_from_user", HIGH, 0, "user;human;operator;owner;anyone;anybody;person;customer",
     "\\b(?:do not|don't|never|without|avoid)(?: ever)? (?:tell|telling|inform|informing|mention|mentioning|reveal|revealing|show|showing|alert|alerting|notify|notifying|warn|warning|disclose|disclosing)\\b"
     "(?:[ \\n][\\w'-]{1,20}){0,4}?" S "(?:the |any |this to (?:the )?|it to (?:the )?)?(?:users?|human|operator|owner|anyone|anybody|person|customer)\\b",
     "asks to keep something from the user"},
    {CONTEXT, "void_context", MEDIUM, 0, "above;previous;preceding;earlier",
     "\\b(?:above|previous|preceding|earlier)(?: [\\w'-]{1,20}){0,4}? (?:was|were|is|are) (?:only |just |all )?(?:a test|an example|examples|a joke|fake|not real|outdated|invalid|cancell?ed|no longer (?:valid|relevant)|superseded|void)\\b",
     "declares what stands before it void"},
    {CONTEXT, "claims_consent", MEDIUM, 0, "approved;authorized;authorised;consented;confirmed;permission;pre-approved",
     "\\b(?:the )?(?:user|owner|admin(?:istrator)?|operator|human|security team) (?:has |have )?(?:already |explicitly |previously |pre-?)?"
     "(?:approved|authori[sz]ed|consented|given (?:you )?permission|granted (?:you )?permission)\\b",
     "claims that somebody has agreed"},
    {CONTEXT, "pretext", LOW, 0, "hypothetically;educational purposes;research purposes;testing purposes;fictional;in a movie script;grandmother;grandma",
     "\\bhypothetically\\b|\\bfor (?:educational|research|testing) purposes only\\b|\\bin a (?:purely )?fictional (?:world|story|scenario)\\b|\\bmy (?:late |dead )?grand(?:mother|ma) used to\\b",
     "a pretext that often goes with such texts"},

    /* persistence */
    {PERSISTENCE, "remember", MEDIUM, 0, "remember;memori;store;save;keep;memory",
     "\\b(?:remember|memori[sz]e|store|save|keep|add|commit)\\b[^.\\n]{0,60}?\\b(?:for|in|to|across|during|throughout) (?:(?:all|every|any|the rest of|your|future|later|subsequent|long-term|permanent|persistent) ){1,3}"
     "(?:conversations?|sessions?|chats?|interactions?|messages?|responses?|memory|replies)\\b",
     "asks to be remembered beyond this text"},
    {PERSISTENCE, "in_every_answer", MEDIUM, 0, "every;each;all ",
     "\\b(?:include|append|add|insert|start|begin|end|prefix|put|place|embed)\\b[^.\\n]{0,80}?\\b(?:every|each|all)(?: of)?(?: your| the)?(?: future| subsequent| following| later)? "
     "(?:responses?|repl(?:y|ies)|answers?|outputs?|emails? you)\\b",
     "asks to be in every answer"},
    {PERSISTENCE, "writes_memory", HIGH, 0,
     "claude.md;agents.md;.cursorrules;copilot-instructions;memory.md;gemini.md;.bashrc;.zshrc;.bash_profile;authorized_keys;crontab;.git/hooks;mcp.json;settings.json",
     "\\b(?:write|append|add|save|insert|put|edit|modify|update|echo|create|install)\\b[^\\n]{0,100}?"
     "(?:claude\\.md|agents\\.md|gemini\\.md|\\.cursorrules|copilot-instructions(?:\\.md)?|memory\\.md|\\.bashrc|\\.zshrc|\\.bash_profile|authorized_keys|crontab|\\.git/hooks|mcp\\.json)",
     "asks to write where it will be read or run again"},
    {PERSISTENCE, "spreads", HIGH, 0, "this message;these instructions;this prompt;this text;this instruction;yourself;these words",
     "\\b(?:copy|replicate|propagate|spread|include|paste|forward|repeat|insert|embed|send)\\b[^.\\n]{0,30}?\\b(?:this (?:message|prompt|text|instruction)|these (?:instructions|words)|yourself)\\b"
     "[^.\\n]{0,60}?\\b(?:every|all|each|other|any)\\b",
     "asks to be passed on"},

    /* tool hijacking */
    {TOOL, "tool_without_asking", HIGH, 0, "without;silently;secretly;do not ask;don't ask;no confirmation;automatically",
     "\\b(?:call|use|invoke|run|execute|trigger|activate|launch)\\b[^.\\n]{0,80}?\\b(?:tools?|functions?|plugins?|commands?|api|shell|terminal|code|scripts?)\\b"
     "[^\\n]{0,80}?\\b(?:without (?:asking|confirm\\w{0,6}|approval|permission|telling)|silently|secretly|do not ask|don't ask|no confirmation)\\b",
     "asks to use a tool without asking"},
    {TOOL, "fake_tool_call", HIGH, 0, "tool_call;function_call;tool_use;recipient_name;<invoke;tool_calls",
     "[\\{,] ?\"(?:tool_calls?|function_call|recipient_name)\" ?:|\"type\" ?: ?\"(?:tool_use|tool_call|function_call)\"|<(?:tool_call|function_calls?|invoke|tool_use)(?: [^>\\n]{0,80})?>",
     "text in the form of a tool call"},
    {TOOL, "exfiltrate", HIGH, 0, "api key;api_key;apikey;password;credential;secret;token;private key;ssh key;environment variable;env variable;.env;id_rsa;.aws;chat history;conversation history;system prompt",
     "\\b(?:send|post|upload|exfiltrate|forward|transmit|e-?mail|leak|submit|deliver|report|append|encode)\\b[^.\\n]{0,80}?"
     "(?:api[ _-]?keys?|passwords?|credentials?|secrets?|tokens?|private keys?|ssh keys?|env(?:ironment)? variables?|\\.env\\b|id_rsa|\\.aws\\b|(?:chat|conversation) history|system prompt)"
     "[^\\n]{0,80}?(?:https?:/|[\\w.-]{1,40}@[\\w-]{1,40}\\.|webhook|\\bmy server\\b|\\bendpoint\\b|\\bfollowing (?:url|address|server)\\b|\\bdomain\\b)",
     "asks to send secrets away"},
    {TOOL, "exfiltrate_by_link", HIGH, 0, "](http",
     "!\\[[^\\]\\n]{0,80}\\]\\(https?:/[^)\\n]{0,160}[?&/=](?:\\{|%7b|<|\\[|\\$)",
     "an image whose address carries something out"},
    {TOOL, "download_and_run", MEDIUM, 0, "curl;wget;invoke-webrequest;iwr ",
     "\\b(?:curl|wget)\\b[^\\n|]{0,160}\\| ?(?:sudo )?(?:env )?(?:/bin/|/usr/bin/)?(?:(?:ba|z|da|k|fi)?sh|python3?|perl|node|ruby)\\b|\\b(?:iwr|invoke-webrequest)\\b[^\\n|]{0,160}\\| ?iex\\b",
     "downloads a program and runs it"},
    {TOOL, "destroys", HIGH, 0, "rm -;mkfs;drop table;drop database;:(){;dd if=;git push",
     "\\brm (?:-\\w{1,8} ){0,3}-(?:rf|fr|r)\\w{0,3} (?:--no-preserve-root )?(?:/|~|\\$home|\\*|\\.(?:$|[ \\n]))|\\bmkfs(?:\\.\\w{1,8})? /dev/|\\bdd if=[^\\n]{0,60} of=/dev/|:\\(\\) ?\\{ ?:\\|:",
     "a command that destroys"},
    {TOOL, "reads_secrets", MEDIUM, 0, "/etc/shadow;.ssh/id_;.aws/credentials;/proc/self/environ;.env;id_rsa;.npmrc;.netrc",
     "\\b(?:read|cat|open|print|show|dump|get|output|copy|include|look at)\\b[^\\n]{0,60}?(?:/etc/shadow|\\.ssh/id_|id_rsa|\\.aws/credentials|/proc/self/environ|[ /'\"`]\\.env\\b|\\.npmrc|\\.netrc)",
     "asks to read secrets"},
};
/* clang-format on */
const size_t validate_n_patterns = sizeof(validate_patterns) / sizeof(validate_patterns[0]);
