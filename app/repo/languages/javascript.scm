; Definitions shared by JavaScript, TypeScript and TSX.
(function_declaration name: (identifier) @name) @definition.function
(generator_function_declaration name: (identifier) @name) @definition.function
(method_definition name: [(property_identifier) (private_property_identifier)] @name) @definition.method
(method_definition name: (computed_property_name) @name) @definition.method
(variable_declarator
  name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @definition.function
(variable_declarator name: (identifier) @name value: (class)) @definition.class
(pair
  key: (property_identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @definition.function
(assignment_expression
  left: (member_expression property: (property_identifier) @name)
  right: [(arrow_function) (function_expression) (generator_function)]) @definition.function
((program (lexical_declaration (variable_declarator name: (identifier) @name) @definition.constant))
  (#match? @name "^[A-Z][A-Z0-9_]*$"))
((program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @definition.constant)))
  (#match? @name "^[A-Z][A-Z0-9_]*$"))
(variable_declarator name: (identifier) @name value: (object)) @scope
